//! The compliance suite on whatever is registered.

#[test]
fn every_registered_adaptor_and_session_complies() {
    let report = framegate_adaptor_api::compliance::run();
    println!("{report}");
}

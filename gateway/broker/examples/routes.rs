//! Prints nanoseconds of a route: `cargo run --release -p framegate-broker --features measure --example routes`.

use framegate_broker::{ExchangeKind, measure_routing};

fn main() {
    println!("kind     bindings   hit ns  miss ns  comparisons of a miss  change ns");
    for kind in [ExchangeKind::Direct, ExchangeKind::Topic, ExchangeKind::Headers] {
        for bindings in [10, 10_000] {
            let row = measure_routing::row(kind.clone(), bindings, 1_000_000);
            println!(
                "{:8} {:8} {:8.0} {:8.0} {:22} {:10.0}",
                row.kind, row.bindings, row.hit_ns, row.miss_ns, row.miss_comparisons, row.change_ns
            );
        }
    }
}

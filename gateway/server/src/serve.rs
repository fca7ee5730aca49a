//! `framegate serve`: configuration, storage, broker, listeners, and the wait for the end, in this order.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use framegate_adaptor_api::{Adaptors, HttpContext, ProtocolPlugin, UnfinishedBudget, protocols};
use framegate_broker::{Broker, Name, StartError, Startup};
use framegate_storage::ShardStore;
use tokio::sync::watch;

use crate::auth::UserTable;
use crate::cli::ServeArgs;
use crate::config::{Backend, Config, load};
use crate::exit::{Ending, Exit};
use crate::http::{Assembly, Health, Server, assemble};
use crate::listeners::{
    Accepting, Bound, Gate, ListenerStats, Planned, PlannedKind, StreamServer, accept, bind, check_reach,
    effective, plan,
};
use crate::metrics::Metrics;
use crate::shutdown::{Shutdown, Signals};
use crate::{files, log, storage};

/// How long tasks that are left may take to end once everything else is over.
const RUNTIME_STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// What was decided before anything is opened.
struct Settled {
    config: Config,
    planned: Vec<Planned>,
    protocols: Vec<&'static ProtocolPlugin>,
    adaptors: Adaptors,
    users: Arc<UserTable>,
    ports_file: Option<PathBuf>,
}

/// Runs the broker until it is told to stop.
///
/// # Errors
/// An ending with its message.
pub(crate) fn serve(args: &ServeArgs) -> Result<Exit, Ending> {
    let settled = settle(args)?;
    if args.check {
        let listeners = effective(&settled.protocols, &settled.planned);
        let text = Config { listeners, ..settled.config }.to_toml().map_err(Ending::usage)?;
        // What cannot be shown is valid all the same.
        let _ = std::io::stdout().lock().write_all(text.as_bytes());
        return Ok(Exit::Done);
    }
    log::start(settled.config.log.level, settled.config.log.format);
    files::raise_open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("framegate-io")
        .build()
        .map_err(|e| Ending::failed(format!("cannot start threads: {e}")))?;
    let end = runtime.block_on(run(settled));
    runtime.shutdown_timeout(RUNTIME_STOP_TIMEOUT);
    end
}

fn settle(args: &ServeArgs) -> Result<Settled, Ending> {
    let env =
        || std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    let file = args.config.clone().or_else(|| std::env::var_os("FRAMEGATE_CONFIG").map(PathBuf::from));
    let (config, origins) = load(file.as_deref(), env(), &args.flags()).map_err(Ending::usage)?;
    let protocols = protocols().map_err(Ending::usage)?;
    let adaptors = Adaptors::collect().map_err(Ending::usage)?;
    let planned = plan(&protocols, &config, &origins).map_err(Ending::usage)?;
    let users = UserTable::new(&config.auth, &origins).map_err(Ending::usage)?;
    for listener in &planned {
        check_reach(listener, !users.has_credentials(), config.auth.allow_anonymous)?;
    }
    Ok(Settled {
        config,
        planned,
        protocols,
        adaptors,
        users: Arc::new(users),
        ports_file: args.ports_file.clone(),
    })
}

async fn run(settled: Settled) -> Result<Exit, Ending> {
    let signals = Signals::install().map_err(|e| Ending::failed(format!("cannot handle signals: {e}")))?;
    let Settled { config, planned, protocols, adaptors, users, ports_file } = settled;
    let anonymous = config.auth.allow_anonymous || !users.has_credentials();
    if config.auth.allow_anonymous {
        tracing::warn!("clients without credentials have all rights on every listener (allow_anonymous)");
    }
    let (broker, store) = start_broker(&config, &adaptors).await?;
    tokio::spawn(broker.wake_subscribers());
    let bound = match planned.into_iter().map(bind).collect::<Result<Vec<Bound>, Ending>>() {
        Ok(bound) => bound,
        Err(ending) => {
            // The start fails for the socket's reason, whatever the stop says.
            let _ = broker.stop().await;
            return Err(ending);
        }
    };

    let (stopping_sender, stopping) = watch::channel(false);
    let (cut_sender, cut) = watch::channel(false);
    let sockets = bound.iter().map(|b| 1 + usize::from(b.extra.is_some())).sum();
    let gate = Gate::new(config.limits.connections_max, sockets);
    let budget = UnfinishedBudget::new(config.limits.unfinished_bytes_max);
    let settings = sections(&protocols, &config);
    let listeners = Arc::new(OnceLock::new());
    let context = HttpContext {
        broker: broker.clone(),
        authenticator: users,
        adaptors,
        budget: budget.clone(),
        vhost: Name::from_static("/"),
        anonymous,
        settings: Arc::default(),
        message_bytes_max: config.limits.message_bytes_max,
        stopping: stopping.clone(),
        listeners: Arc::clone(&listeners),
    };
    let stats: Vec<Arc<ListenerStats>> =
        bound.iter().map(|b| Arc::new(ListenerStats::new(b.planned.name))).collect();
    let metrics = Arc::new(Metrics::new(broker.clone(), store, budget, stats.clone()));
    let health = Health { stopping: stopping.clone(), failure: broker.failure(), metrics };
    let assembly = Assembly { context, settings, health, section: config.http.clone() };

    let addresses: Vec<Vec<(String, String)>> = bound.iter().map(Bound::addresses).collect();
    // Before anybody is served, so that it is the first event.
    broker.announce(addresses.concat());
    let started = start_listeners(bound, &stats, &assembly, &gate, &stopping, &cut);
    if let Err(ending) = started.and_then(|()| announce(&addresses, ports_file.as_deref())) {
        let _ = broker.stop().await;
        return Err(ending);
    }
    // Set once, here; nobody else has the cell before.
    let _ = listeners.set(addresses.concat());
    tracing::info!("ready");
    let grace = Duration::from_millis(config.shutdown.grace_ms);
    Shutdown { broker, gate, stopping: stopping_sender, cut: cut_sender, grace }.wait(signals).await
}

async fn start_broker(config: &Config, adaptors: &Adaptors) -> Result<(Broker, Arc<dyn ShardStore>), Ending> {
    let vhosts = config.vhosts.iter().map(|v| Name::declared(v)).collect::<Result<Vec<_>, _>>();
    let vhosts = vhosts.map_err(Ending::usage)?;
    let limits = config.limits.broker();
    let headers = adaptors.headers().clone();
    let config = config.clone();
    let started = tokio::task::spawn_blocking(move || {
        let store = storage::open(&config)?;
        match config.storage.backend {
            Backend::Journal => tracing::info!("recovering {}", config.data_dir.display()),
            Backend::Memory => tracing::warn!("storage.backend = \"memory\": nothing survives this process"),
        }
        let startup = Startup { store: Arc::clone(&store), limits, headers, vhosts };
        let broker = Broker::start(startup).map_err(|error| cannot_start(&error))?;
        Ok((broker, store))
    });
    started.await.unwrap_or_else(|e| Err(Ending::failed(format!("recovery ended early: {e}"))))
}

fn cannot_start(error: &StartError) -> Ending {
    match error {
        StartError::Store(error) => storage::cannot_start(error),
        StartError::Record { .. } => Ending::usage(format!(
            "{error}; start the version of framegate that wrote it, or pass --data-dir with another directory"
        )),
        other => Ending::failed(other),
    }
}

/// Each protocol's section, `Null` when absent.
fn sections(
    protocols: &[&'static ProtocolPlugin],
    config: &Config,
) -> BTreeMap<&'static str, Arc<serde_json::Value>> {
    let section = |name: &str| Arc::new(config.protocols.get(name).cloned().unwrap_or_default());
    protocols.iter().map(|plugin| (plugin.name, section(plugin.name))).collect()
}

fn start_listeners(
    bound: Vec<Bound>,
    stats: &[Arc<ListenerStats>],
    assembly: &Assembly,
    gate: &Gate,
    stopping: &watch::Receiver<bool>,
    cut: &watch::Receiver<bool>,
) -> Result<(), Ending> {
    let mut starts: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for (Bound { planned, socket, extra }, stats) in bound.into_iter().zip(stats) {
        let accepting = Accepting {
            gate: gate.clone(),
            stats: Arc::clone(stats),
            stopping: stopping.clone(),
            cut: cut.clone(),
        };
        let sockets = [Some(socket), extra].into_iter().flatten();
        match planned.kind {
            PlannedKind::Http(mounts) => {
                let router = assemble(assembly, planned.name, &planned.vhost, &mounts, stats)?;
                let server = Server::new(planned.name, router, &assembly.section, stopping.clone());
                for socket in sockets {
                    let (server, accepting) = (server.clone(), accepting.clone());
                    starts.push(Box::new(move || {
                        tokio::spawn(accept(socket, accepting, move |s, peer| server.clone().serve(s, peer)));
                    }));
                }
            }
            PlannedKind::Stream { protocol, open } => {
                let server = StreamServer::new(planned.name, protocol, open, planned.vhost, assembly, stats);
                for socket in sockets {
                    let (server, accepting) = (server.clone(), accepting.clone());
                    starts.push(Box::new(move || {
                        tokio::spawn(accept(socket, accepting, move |s, peer| server.clone().serve(s, peer)));
                    }));
                }
            }
        }
    }
    // Only now: a start that fails has not served anybody.
    for start in starts {
        start();
    }
    Ok(())
}

/// Prints `name addr` lines and writes the ports file.
fn announce(addresses: &[Vec<(String, String)>], ports_file: Option<&std::path::Path>) -> Result<(), Ending> {
    let mut out = std::io::stdout().lock();
    for (name, addr) in addresses.iter().flatten() {
        // A closed standard output is no reason not to serve.
        let _ = writeln!(out, "{name} {addr}");
    }
    let _ = out.flush();
    let Some(path) = ports_file else { return Ok(()) };
    let main: Vec<(String, String)> = addresses.iter().filter_map(|of_one| of_one.first().cloned()).collect();
    files::write_ports(path, &main)
        .map_err(|e| Ending::usage(format!("--ports-file {}: cannot be written: {e}", path.display())))
}

//! The tracing layer: which events become records, and what of them is kept.

use std::fmt::Debug;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use diag_model::{Facts, Level, Record};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::flood::Flood;
use crate::sanitize::Collected;
use crate::sink::{Entry, Sink, stamp};
use crate::{Guard, Options};

/// The crates whose events keep their name and facts. Everything else is foreign.
const OWN_CRATES: &[&str] = &[
    "acp_server",
    "client",
    "diag_model",
    "diagnostics",
    "runtime_discovery",
    "session_coordinator",
    "simulator",
    "zcode_acp",
    "zcode_protocol",
    "zcode_runtime",
];

/// The longest event name.
const NAME_LIMIT: usize = 64;

/// Stands for the name of an event whose message is none: free text may hold anything.
const UNNAMED: &str = "unnamed";

/// The name of every record made from a foreign event.
const FOREIGN: &str = "foreign";

/// What layer and guard share.
pub(crate) struct Core {
    level: Level,
    home: Option<String>,
    sequence: Arc<AtomicU64>,
    flood: Mutex<Flood>,
    sinks: RwLock<Vec<Box<dyn Sink>>>,
}

impl Core {
    fn send(&self, mut record: Record) {
        stamp(&mut record, &self.sequence);
        let entry = Entry::new(record);
        for sink in self.sinks.read().unwrap_or_else(PoisonError::into_inner).iter() {
            sink.accept(&entry);
        }
    }

    /// Whether a record of this name may pass, and the number left out before it. Also tells of floods that have ended.
    fn admit(&self, name: &str) -> Option<u64> {
        let now = Instant::now();
        let (admitted, ended) = {
            let mut flood = self.flood.lock().unwrap_or_else(PoisonError::into_inner);
            (flood.admit(name, now), flood.sweep(now, false))
        };
        self.tell(ended);
        admitted
    }

    fn tell(&self, floods: Vec<(String, u64)>) {
        for (name, count) in floods {
            let mut record = Record::new(Level::Warn, "log.suppressed");
            record.facts.event = Some(name);
            record.facts.count = Some(count);
            self.send(record);
        }
    }

    pub(crate) fn flush(&self, max: Duration) {
        let deadline = Instant::now() + max;
        let floods = self.flood.lock().unwrap_or_else(PoisonError::into_inner).sweep(Instant::now(), true);
        self.tell(floods);
        for sink in self.sinks.read().unwrap_or_else(PoisonError::into_inner).iter() {
            sink.flush(deadline);
        }
    }
}

/// Turns events into records and hands them to the sinks.
pub struct DiagnosticLayer {
    core: Arc<Core>,
}

impl DiagnosticLayer {
    /// A layer without sinks.
    pub fn new(options: Options) -> Self {
        let home = options.home.or_else(std::env::home_dir);
        Self {
            core: Arc::new(Core {
                level: options.level,
                home: home.and_then(|home| home.into_os_string().into_string().ok()),
                sequence: Arc::default(),
                flood: Mutex::default(),
                sinks: RwLock::default(),
            }),
        }
    }

    /// Adds a sink; it gets every record from now on.
    pub fn add_sink(&self, sink: impl Sink + 'static) {
        self.core.sinks.write().unwrap_or_else(PoisonError::into_inner).push(Box::new(sink));
    }

    /// The numbers of records, for sinks that make records of their own.
    pub fn sequence(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.core.sequence)
    }

    /// A guard to flush the sinks with.
    pub fn guard(&self) -> Guard {
        Guard { core: Arc::clone(&self.core) }
    }

    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        let level = level(*metadata.level());
        let limit = if is_own(metadata.target()) { Level::Trace } else { Level::Warn };
        metadata.is_event() && level <= self.core.level && level <= limit
    }
}

impl<S: Subscriber> Layer<S> for DiagnosticLayer {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.wants(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.wants(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match self.core.level {
            Level::Error => LevelFilter::ERROR,
            Level::Warn => LevelFilter::WARN,
            Level::Info => LevelFilter::INFO,
            Level::Debug => LevelFilter::DEBUG,
            Level::Trace => LevelFilter::TRACE,
        })
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let target = Collected::of_str(metadata.target()).sanitize(None);
        if !is_own(metadata.target()) {
            if let Some(suppressed) = self.core.admit(&target) {
                let mut record = Record::new(level(*metadata.level()), FOREIGN);
                record.target = Some(target);
                record.suppressed = suppressed;
                self.core.send(record);
            }
            return;
        }
        let mut name = Name::default();
        event.record(&mut name);
        let Some(suppressed) = self.core.admit(name.as_str()) else { return };

        let mut visitor = Collector { home: self.core.home.as_deref(), facts: Facts::default(), omitted: 0 };
        event.record(&mut visitor);
        let mut record = Record::new(level(*metadata.level()), name.as_str());
        record.target = (name.as_str() == UNNAMED).then_some(target);
        record.facts = visitor.facts;
        record.omitted = visitor.omitted;
        record.suppressed = suppressed;
        self.core.send(record);
    }
}

fn level(level: tracing::Level) -> Level {
    match level {
        tracing::Level::ERROR => Level::Error,
        tracing::Level::WARN => Level::Warn,
        tracing::Level::INFO => Level::Info,
        tracing::Level::DEBUG => Level::Debug,
        tracing::Level::TRACE => Level::Trace,
    }
}

fn is_own(target: &str) -> bool {
    let name = target.split("::").next().unwrap_or(target);
    OWN_CRATES.contains(&name)
}

/// Reads the name of an event out of its message, and nothing else.
#[derive(Default)]
struct Name(Option<String>);

impl Name {
    fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or(UNNAMED)
    }

    fn take(&mut self, field: &Field, text: &str) {
        let fits = !text.is_empty()
            && text.len() <= NAME_LIMIT
            && text.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_')
            });
        if field.name() == "message" && fits {
            self.0 = Some(text.to_owned());
        }
    }
}

impl Visit for Name {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.take(field, Collected::of(value).raw());
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, value);
    }
}

/// Keeps the facts a record has a place for and counts the rest.
struct Collector<'a> {
    home: Option<&'a str>,
    facts: Facts,
    omitted: u64,
}

impl Collector<'_> {
    /// `collect` runs only for fields that have a place; it may be costly and must not see what is left out.
    fn fact(&mut self, field: &Field, collect: impl FnOnce() -> Collected) {
        if field.name() == "message" {
            return;
        }
        let kept = Facts::NAMES.contains(&field.name())
            && self.facts.set(field.name(), &collect().sanitize(self.home));
        self.omitted += u64::from(!kept);
    }
}

impl Visit for Collector<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fact(field, || Collected::of(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fact(field, || Collected::of_str(value));
    }
}

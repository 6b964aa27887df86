//! How the bridge starts, and how it says that it cannot.
#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bridge_support;

use std::time::Duration;

use bridge_support::{Fixture, Got, SCRIPT, node_is_here};
use serde_json::{Value, json};

#[test]
fn fits_on_a_windows_command_line() {
    assert!(SCRIPT.len() <= 24 * 1024, "{} bytes", SCRIPT.len());
    assert!(SCRIPT.is_ascii() && !SCRIPT.contains('\r'), "quoting rules differ for anything else");
}

#[test]
fn refuses_a_configuration_without_a_nonce_on_stderr_only() {
    if !node_is_here() {
        return;
    }
    let fixture = Fixture::new();
    let long = format!("{{\"nonce\":\"{}", "x".repeat(2 << 20));
    let mut spaced = fixture.config();
    spaced["nonce"] = json!("with a space in it");
    for first in ["not json", "[]", "{}", "{\"nonce\":\"short\"}", &spaced.to_string(), &long] {
        let mut bridge = fixture.start_with(first);
        assert_eq!(bridge.wait().code(), Some(2));
        assert_eq!(bridge.next(), Got::End);
        assert!(bridge.noise.is_empty());
        assert!(bridge.stderr().contains("configuration refused"));
    }
}

#[test]
fn refuses_an_incomplete_configuration_by_name() {
    if !node_is_here() {
        return;
    }
    let fixture = Fixture::new();
    for (key, value, said) in [
        ("bridge", json!(2), "bridge version 2"),
        ("hostIndex", json!("relative/index.js"), "hostIndex"),
        ("rpcModule", json!(7), "rpcModule"),
        ("exports", json!({ "protocol": "g", "client": "i" }), "service"),
        ("allow", json!([]), "allow"),
        ("disposeMs", json!(-1), "disposeMs"),
    ] {
        let mut config = fixture.config();
        config[key] = value;
        let (fatal, code) = fixture.start_with(&config.to_string()).fatal();
        assert_eq!((fatal["stage"].as_str(), code), (Some("config"), Some(2)));
        assert!(fatal["message"].as_str().unwrap().contains(said), "{fatal}");
    }
}

#[test]
fn says_which_module_cannot_be_imported() {
    if !node_is_here() {
        return;
    }
    let broken = Fixture::with_host(Some("import './nothing-here.js';"));
    let (fatal, code) = broken.start().fatal();
    assert_eq!((fatal["stage"].as_str(), code), (Some("import"), Some(1)));
    let message = fatal["message"].as_str().unwrap();
    assert!(message.starts_with("host: ") && message.contains("nothing-here.js"), "{message}");

    let fixture = Fixture::new();
    let mut config = fixture.config();
    config["rpcModule"] = json!(fixture.install.root.join("absent.js"));
    let (fatal, _) = fixture.start_with(&config.to_string()).fatal();
    assert_eq!(fatal["stage"], "import");
    assert!(fatal["message"].as_str().unwrap().starts_with("RPC module: "), "{fatal}");

    let mut config = fixture.config();
    config["exports"]["client"] = json!("z");
    let (fatal, _) = fixture.start_with(&config.to_string()).fatal();
    assert_eq!(fatal, json!({ "stage": "import", "message": "RPC module: export z (client) is missing" }));
}

#[test]
fn reports_the_end_of_the_host_thread() {
    if !node_is_here() {
        return;
    }
    let (fatal, code) = Fixture::with_host(Some("process.exit(9);")).start().fatal();
    assert_eq!(fatal, json!({ "stage": "worker", "message": "the host's thread ended", "code": 9 }));
    assert_eq!(code, Some(1));

    let throwing = "process.parentPort.on('message', () => { throw new Error('cannot initialize'); });";
    let (fatal, _) = Fixture::with_host(Some(throwing)).start().fatal();
    assert_eq!(fatal, json!({ "stage": "worker", "message": "cannot initialize", "code": 1 }));

    let fixture = Fixture::new();
    let mut config = fixture.config();
    config["init"].as_object_mut().unwrap().remove("deviceMid");
    let (fatal, _) = fixture.start_with(&config.to_string()).fatal();
    assert_eq!(fatal["message"], "init-local has no deviceMid");
}

#[test]
fn a_host_without_a_channel_is_never_called_ready() {
    if !node_is_here() {
        return;
    }
    let silent =
        "process.parentPort.on('message', ({ ports }) => { for (const port of ports) port.start(); });";
    let fixture = Fixture::with_host(Some(silent));
    let mut bridge = fixture.start();
    assert_eq!(
        bridge.next_within(Duration::from_millis(1500)),
        None,
        "whose patience ends is the adapter's business"
    );
    bridge.close_stdin();
    assert_eq!(bridge.next(), Got::End);
    assert!(bridge.wait().success());
}

#[test]
fn the_parent_port_has_electrons_shape() {
    if !node_is_here() {
        return;
    }
    // The host reports through the wire-level error of its thread what it saw.
    let host = r"
        const port = process.parentPort;
        const seen = { execArgv: process.execArgv.some((arg) => arg === '-e') };
        for (const name of ['on', 'once', 'off', 'postMessage']) seen[name] = typeof port[name];
        Promise.reject(new Error('tolerated'));
        const never = () => { throw new Error('a removed listener was called'); };
        port.on('message', never);
        port.off('message', never);
        // Messages wait for a listener, so a late one misses nothing.
        setTimeout(() => port.once('message', ({ data, ports }) => {
            seen.data = data.type;
            const [inner] = ports;
            for (const name of ['start', 'on', 'once', 'off', 'postMessage', 'close']) seen['port.' + name] = typeof inner[name];
            inner.on('close', () => { throw new Error(JSON.stringify(seen)); });
            inner.start();
            inner.close();
        }), 50);
    ";
    let (fatal, _) = Fixture::with_host(Some(host)).start().fatal();
    let seen: Value =
        serde_json::from_str(fatal["message"].as_str().unwrap()).unwrap_or_else(|_| panic!("{fatal}"));
    let function = "function";
    assert_eq!(
        seen,
        json!({
            "execArgv": false, "on": function, "once": function, "off": function, "postMessage": function,
            "data": "init-local", "port.start": function, "port.on": function, "port.once": function,
            "port.off": function, "port.postMessage": function, "port.close": function,
        })
    );
}

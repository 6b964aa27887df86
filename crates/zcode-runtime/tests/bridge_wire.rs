//! The RPC wire of the fake install, byte by byte against recorded examples. Everything that is tested through the fake
//! rests on these.
#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

mod bridge_support;

use std::process::Command;

use bridge_support::node_is_here;
use serde_json::Value;
use testkit::install::{node, rpc_module};

/// Runs `body` as a module function with `encode(header, body)`, `decode(bytes)`, `hex` and `bytes`; gives its result.
fn in_node(body: &str) -> Value {
    let temp = tempfile::tempdir().unwrap();
    let module = temp.path().join("rpc.mjs");
    std::fs::write(&module, rpc_module()).unwrap();
    let script = format!(
        "import(process.argv[1]).then(({{ a: encode, b: decode }}) => {{
            const hex = (data) => Buffer.from(data).toString('hex').toUpperCase().replace(/(..)(?=.)/g, '$1 ');
            const bytes = (text) => Uint8Array.from(Buffer.from(text.replaceAll(' ', ''), 'hex'));
            console.log(JSON.stringify((() => {{ {body} }})()));
        }})"
    );
    let output = Command::new(node().unwrap()).arg("-e").arg(script).arg(&module).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

const AGENT: &str = "7A 63 6F 64 65 2D 61 67 65 6E 74";

fn messages() -> Vec<(&'static str, String)> {
    let text = |text: &str| text.bytes().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(" ");
    vec![
        ("[200], undefined", "04 01 06 C8 01 00".into()),
        (
            "[100, 0, 'zcode-agent', 'initialize'], [{ workspacePath: '/w' }]",
            format!(
                "04 04 06 64 06 00 01 0B {AGENT} 01 0A 69 6E 69 74 69 61 6C 69 7A 65 04 01 05 16 7B 22 77 6F 72 6B 73 70 \
                 61 63 65 50 61 74 68 22 3A 22 2F 77 22 7D"
            ),
        ),
        (
            "[201, 0], { available: true }",
            "04 02 06 C9 01 06 00 05 12 7B 22 61 76 61 69 6C 61 62 6C 65 22 3A 74 72 75 65 7D".into(),
        ),
        (
            "[202, 0], { message: 'no', name: 'Error' }",
            format!("04 02 06 CA 01 06 00 05 1F {}", text(r#"{"message":"no","name":"Error"}"#)),
        ),
        (
            "[102, 1, 'zcode-agent', 'onDynamicConversationFrame'], { workspacePath: '/w' }",
            format!(
                "04 04 06 66 06 01 01 0B {AGENT} 01 1A {} 05 16 {}",
                text("onDynamicConversationFrame"),
                text(r#"{"workspacePath":"/w"}"#)
            ),
        ),
        (
            "[204, 1], { wireVersion: 3 }",
            format!("04 02 06 CC 01 06 01 05 11 {}", text(r#"{"wireVersion":3}"#)),
        ),
        ("[103, 1], undefined", "04 02 06 67 06 01 00".into()),
        ("[101, 0], undefined", "04 02 06 65 06 00 00".into()),
        ("[201, 2], undefined", "04 02 06 C9 01 06 02 00".into()),
    ]
}

#[test]
fn messages_are_the_recorded_bytes() {
    if !node_is_here() {
        return;
    }
    let (sources, expected): (Vec<_>, Vec<_>) = messages().into_iter().unzip();
    let body = format!(
        "return [{}]",
        sources.iter().map(|source| format!("hex(encode({source}))")).collect::<Vec<_>>().join(",")
    );
    assert_eq!(in_node(&body), Value::from(expected));
}

#[test]
fn messages_decode_to_what_was_encoded() {
    if !node_is_here() {
        return;
    }
    for (source, bytes) in messages() {
        let body = format!(
            "const [header, body] = [{source}]; const seen = decode(bytes('{bytes}'));
             return [JSON.stringify([header, body]), JSON.stringify([seen.header, seen.body])]"
        );
        let pair = in_node(&body);
        assert_eq!(pair[0], pair[1]);
    }
}

#[test]
fn values_are_the_recorded_bytes() {
    if !node_is_here() {
        return;
    }
    let cases = [
        ("-1", "06 FF FF FF FF 0F"),
        ("300", "06 AC 02"),
        ("0", "06 00"),
        ("null", "05 04 6E 75 6C 6C"),
        ("1.5", "05 03 31 2E 35"),
        ("new Uint8Array([1, 2])", "02 02 01 02"),
        ("2147483647", "06 FF FF FF FF 07"),
        ("-2147483648", "06 80 80 80 80 08"),
        ("2147483648", "05 0A 32 31 34 37 34 38 33 36 34 38"),
        ("true", "05 04 74 72 75 65"),
        ("'ü'", "01 02 C3 BC"),
        ("['a', 1]", "04 02 01 01 61 06 01"),
        ("undefined", "00"),
    ];
    // The header is the value under test; the body is one byte.
    let body = format!(
        "return [{}]",
        cases
            .iter()
            .map(|(value, _)| format!(
                "[hex(encode({value}, undefined)), decode(encode({value}, undefined)).header ?? null]"
            ))
            .collect::<Vec<_>>()
            .join(",")
    );
    let seen = in_node(&body);
    for (index, (value, bytes)) in cases.iter().enumerate() {
        assert_eq!(seen[index][0], format!("{bytes} 00"), "{value}");
    }
    assert_eq!(seen[0][1], -1);
    assert_eq!(seen[7][1], i64::from(i32::MIN));
    assert_eq!(seen[8][1], 2_147_483_648_i64);
}

#[test]
fn bytes_inside_json_keep_their_form() {
    if !node_is_here() {
        return;
    }
    let seen = in_node(
        "const data = encode({ inner: new Uint8Array([1, 2]) }, undefined);
         const text = Buffer.from(data).toString('utf8');
         const back = decode(data).header.inner;
         return [text.slice(text.indexOf('{'), -1), back instanceof Uint8Array, [...back]]",
    );
    assert_eq!(seen[0], r#"{"inner":{"__zcode_rpc_nested_uint8array_v1":true,"base64":"AQI="}}"#);
    assert_eq!((&seen[1], &seen[2]), (&Value::from(true), &Value::from(vec![1, 2])));
}

#[test]
fn damaged_messages_are_errors() {
    if !node_is_here() {
        return;
    }
    let seen = in_node(
        "return ['04 05 06 C8', '01 7F 61', '09', '', '06 FF FF FF FF FF 01', '05 01 7B', '04 FF FF FF FF 0F'].map((text) => {
             try { decode(bytes(text)); return 'decoded'; } catch (error) { return error.name; }
         })",
    );
    for outcome in seen.as_array().unwrap() {
        assert!(outcome.as_str().unwrap().ends_with("Error"), "{seen}");
    }
}

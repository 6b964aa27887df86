use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

use crate::testing::{archive, archive_with_header};

fn open(bytes: &[u8]) -> (tempfile::TempDir, Result<Asar, AsarError>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.asar");
    fs::write(&path, bytes).unwrap();
    let asar = Asar::open(&path);
    (dir, asar)
}

fn entry_error(header: &Value, data: &[u8], path: &str) -> AsarError {
    let (_dir, asar) = open(&archive_with_header(header, data));
    asar.unwrap().entry(path).unwrap_err()
}

#[test]
fn a_file_is_found_and_hashed_in_place() {
    let (_dir, asar) =
        open(&archive(&[("out/host/index.js", b"host"), ("package.json", b"{}"), ("empty", b"")]));
    let mut asar = asar.unwrap();
    let host = asar.entry("out/host/index.js").unwrap();
    assert_eq!(asar.sha256(&host).unwrap(), Sha256Digest::of(b"host"));
    assert_eq!(asar.read_small(&host, 4).unwrap(), b"host");
    assert!(matches!(asar.read_small(&host, 3), Err(AsarError::Limit(_))));
    let empty = asar.entry("empty").unwrap();
    assert_eq!(asar.sha256(&empty).unwrap(), Sha256Digest::of(b""));
    assert!(matches!(asar.entry("out/host"), Err(AsarError::NotAFile { .. })));
    for missing in ["out/host/other.js", "/package.json", "../package.json", "out//host/index.js", ""] {
        assert!(matches!(asar.entry(missing), Err(AsarError::Missing(_))), "{missing}");
    }
}

#[test]
fn bytes_beyond_the_archive_are_refused() {
    for (offset, size) in
        [("0", 5), ("4", 1), ("18446744073709551615", 1), ("1", u64::MAX), ("18446744073709551615", 0)]
    {
        let header = json!({"files": {"a": {"size": size, "offset": offset}}});
        assert!(matches!(entry_error(&header, b"1234", "a"), AsarError::OutOfBounds(_)), "{offset} {size}");
    }
}

#[test]
fn links_and_contradictions_are_no_files() {
    for node in [
        json!({"link": "b"}),
        json!({"link": "b", "size": 1, "offset": "0"}),
        json!({"files": {}, "size": 1, "offset": "0"}),
        json!({"size": 1}),
        json!({"size": 1, "offset": "0", "unpacked": true}),
        json!({"offset": "0"}),
        json!({}),
    ] {
        let error = entry_error(&json!({"files": {"a": node}}), b"1", "a");
        assert!(matches!(error, AsarError::NotAFile { .. }), "{node} {error}");
    }
    let through_link =
        json!({"files": {"out": {"link": "other"}, "other": {"files": {"a": {"size": 1, "offset": "0"}}}}});
    assert!(matches!(entry_error(&through_link, b"1", "out/a"), AsarError::Missing(_)));
}

#[test]
fn malformed_headers_are_refused() {
    let deep = format!("{}{{}}{}", "{\"files\":{\"a\":".repeat(80), "}}".repeat(80));
    for json in [
        r#"{"files":{"a":{"size":1,"offset":"0"},"a":{"size":1,"offset":"1"}}}"#,
        r#"{"files":{"a":{"size":1,"offset":"0","size":2}}}"#,
        r#"{"files":{"..":{"files":{}}}}"#,
        r#"{"files":{".":{"files":{}}}}"#,
        r#"{"files":{"":{"files":{}}}}"#,
        r#"{"files":{"a/b":{"size":1,"offset":"0"}}}"#,
        r#"{"files":{"/etc":{"size":1,"offset":"0"}}}"#,
        r#"{"files":{"a":{"size":1,"offset":"+0"}}}"#,
        r#"{"files":{"a":{"size":1,"offset":" 0"}}}"#,
        r#"{"files":{"a":{"size":1,"offset":""}}}"#,
        r#"{"files":{"a":{"size":1,"offset":0}}}"#,
        r#"{"files":{"a":{"size":-1,"offset":"0"}}}"#,
        r#"{"files":[]}"#,
        r#"{"size":1,"offset":"0"}"#,
        "{}",
        r#"{"files":{}} x"#,
        "",
        &deep,
    ] {
        assert!(matches!(Header::parse(json.as_bytes()), Err(AsarError::Malformed(_))), "{json}");
    }
    let fine =
        Header::parse(br#"{"files":{"a":{"size":1,"offset":"0","integrity":{"x":[1]},"executable":true}}}"#)
            .unwrap();
    assert_eq!(fine.get("a"), Some(&Node::Packed { offset: 0, size: 1 }));
}

#[test]
fn sizes_that_do_not_agree_are_refused() {
    let prefix = |words: [u32; 4]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Prefix::parse(&bytes.try_into().unwrap())
    };
    assert_eq!(prefix([4, 16, 12, 7]).unwrap(), Prefix { json_len: 7, data_start: 24 });
    assert!(matches!(prefix([5, 16, 12, 7]), Err(AsarError::NotAnArchive)));
    for words in [
        [4, 16, 12, 9],
        [4, 16, 12, 4],
        [4, 20, 12, 7],
        [4, 0, 0, 0],
        [4, 3, u32::MAX, 0],
        [4, 8, 4, u32::MAX],
    ] {
        assert!(matches!(prefix(words), Err(AsarError::Malformed(_))), "{words:?}");
    }
    assert!(matches!(prefix([4, u32::MAX, u32::MAX - 4, u32::MAX - 8]), Err(AsarError::Limit(_))));
}

#[test]
fn a_truncated_archive_is_refused_at_every_length() {
    let whole = archive(&[("a", b"1234")]);
    for length in 0..whole.len() {
        let (_dir, asar) = open(&whole[..length]);
        let outcome = asar.and_then(|asar| asar.entry("a"));
        assert!(outcome.is_err(), "{length}");
    }
}

#[test]
fn a_file_beside_the_archive_is_read_from_its_folder_only() {
    let header = json!({"files": {"a": {"size": 4, "unpacked": true}, "b": {"size": 4, "unpacked": true}}});
    let (dir, asar) = open(&archive_with_header(&header, b""));
    let mut asar = asar.unwrap();
    assert!(matches!(asar.entry("a"), Err(AsarError::Io(_))), "there is no such folder yet");
    fs::create_dir(dir.path().join("app.asar.unpacked")).unwrap();
    fs::write(dir.path().join("app.asar.unpacked/a"), "1234").unwrap();
    let entry = asar.entry("a").unwrap();
    assert_eq!(asar.sha256(&entry).unwrap(), Sha256Digest::of(b"1234"));
    fs::write(dir.path().join("app.asar.unpacked/a"), "12345").unwrap();
    assert!(matches!(asar.sha256(&entry), Err(AsarError::OutOfBounds(_))), "longer than announced");
    #[cfg(unix)]
    {
        fs::write(dir.path().join("outside"), "1234").unwrap();
        std::os::unix::fs::symlink("../outside", dir.path().join("app.asar.unpacked/b")).unwrap();
        assert!(matches!(asar.entry("b"), Err(AsarError::OutOfBounds(_))));
        fs::rename(dir.path().join("app.asar.unpacked"), dir.path().join("moved")).unwrap();
        std::os::unix::fs::symlink("moved", dir.path().join("app.asar.unpacked")).unwrap();
        assert!(matches!(asar.entry("a"), Err(AsarError::OutOfBounds(_))), "the folder itself is a link");
    }
}

fn file_name() -> impl Strategy<Value = String> {
    "[a-zA-Zäß ._-]{1,8}".prop_filter("dots", |name| name != "." && name != "..")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_archive_reads_back(files in proptest::collection::btree_map(
        // A fixed folder per depth, so that no generated file is also a folder.
        (0..3_usize, file_name()).prop_map(|(depth, name)| format!("{}f-{name}", "d/".repeat(depth))),
        proptest::collection::vec(any::<u8>(), 0..200),
        0..12,
    )) {
        let files: BTreeMap<String, Vec<u8>> = files;
        let list: Vec<(&str, &[u8])> = files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())).collect();
        let (_dir, asar) = open(&archive(&list));
        let mut asar = asar.unwrap();
        for (path, bytes) in &files {
            let entry = asar.entry(path).unwrap();
            prop_assert_eq!(&asar.read_small(&entry, 1000).unwrap(), bytes);
            prop_assert_eq!(asar.sha256(&entry).unwrap(), Sha256Digest::of(bytes));
        }
    }

    #[test]
    fn no_header_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Header::parse(&bytes);
    }

    #[test]
    fn a_damaged_archive_never_makes_it_panic(at in 0..200_usize, byte in any::<u8>()) {
        let mut bytes = archive(&[("a", b"1234"), ("b/c", b"5")]);
        let length = bytes.len();
        bytes[at % length] = byte;
        let (_dir, asar) = open(&bytes);
        if let Ok(mut asar) = asar {
            for path in ["a", "b/c"] {
                if let Ok(entry) = asar.entry(path) {
                    let _ = asar.sha256(&entry);
                }
            }
        }
    }
}

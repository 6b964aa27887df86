//! The small files that say what an install is: bundle metadata, `package.json` and `Info.plist`.

use std::io::Cursor;

use serde::Deserialize;

/// Largest manifest that is read.
pub(crate) const SIZE_LIMIT: u64 = 1024 * 1024;

/// Bundle metadata. It has exactly these members; another one means another kind of bundle.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BundleMetadata {
    pub(crate) runtime: String,
    pub(crate) entry: String,
    pub(crate) source: String,
    pub(crate) platform: String,
}

impl BundleMetadata {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    }
}

/// App version and, where the operating system's bundle has one, build.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AppVersion {
    pub(crate) version: Option<String>,
    pub(crate) build: Option<String>,
}

/// Reads `Info.plist`, XML or binary.
pub(crate) fn info_plist(bytes: &[u8]) -> Result<AppVersion, String> {
    let value = plist::Value::from_reader(Cursor::new(bytes)).map_err(|error| error.to_string())?;
    let dictionary = value.as_dictionary().ok_or("it is not a dictionary")?;
    let text = |key| dictionary.get(key).and_then(plist::Value::as_string).map(|text| text.trim().to_owned());
    Ok(AppVersion { version: text("CFBundleShortVersionString"), build: text("CFBundleVersion") })
}

/// Reads the version out of `package.json`.
pub(crate) fn package_version(bytes: &[u8]) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Package {
        version: String,
    }
    serde_json::from_slice::<Package>(bytes).map(|package| package.version).map_err(|error| error.to_string())
}

/// The version in the output of the CLI's `version` command, with or without a name before it.
pub(crate) fn version_token(output: &str) -> Option<&str> {
    output.lines().find_map(|line| {
        line.split_whitespace()
            .map(|word| word.strip_prefix('v').unwrap_or(word))
            .find(|word| is_version(word))
    })
}

fn is_version(word: &str) -> bool {
    let (numbers, tail) = match word.find(['-', '+']) {
        Some(at) => word.split_at(at),
        None => (word, "-x"),
    };
    let number =
        |part: &str| !part.is_empty() && part.len() <= 9 && part.bytes().all(|byte| byte.is_ascii_digit());
    numbers.split('.').count() == 3
        && numbers.split('.').all(number)
        && tail.len() > 1
        && tail.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{"runtime":"electron-node","entry":"e","source":"s","platform":"linux-x64"}"#;

    #[test]
    fn metadata_has_exactly_four_members() {
        assert_eq!(BundleMetadata::parse(METADATA.as_bytes()).unwrap().platform, "linux-x64");
        for wrong in [
            METADATA.replace("\"entry\":\"e\",", ""),
            METADATA.replace('}', ",\"extra\":1}"),
            METADATA.replace('}', ",\"entry\":\"f\"}"),
            METADATA.replace("\"e\"", "7"),
            "[]".to_owned(),
            String::new(),
        ] {
            assert!(BundleMetadata::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn both_kinds_of_property_list_are_read() {
        let mut dictionary = plist::Dictionary::new();
        dictionary.insert("CFBundleShortVersionString".into(), "3.11.2".into());
        dictionary.insert("CFBundleVersion".into(), "3.11.2.6792".into());
        let value = plist::Value::Dictionary(dictionary);
        let expected = AppVersion { version: Some("3.11.2".into()), build: Some("3.11.2.6792".into()) };
        let (mut xml, mut binary) = (Vec::new(), Vec::new());
        value.to_writer_xml(&mut xml).unwrap();
        value.to_writer_binary(&mut binary).unwrap();
        assert_eq!(info_plist(&xml).unwrap(), expected);
        assert_eq!(info_plist(&binary).unwrap(), expected);
        assert!(info_plist(b"nonsense").is_err());
        assert!(info_plist(b"").is_err());
    }

    #[test]
    fn a_property_list_without_versions_says_none() {
        let empty = b"<plist version=\"1.0\"><dict/></plist>";
        assert_eq!(info_plist(empty).unwrap(), AppVersion::default());
    }

    #[test]
    fn the_version_is_found_in_what_the_cli_prints() {
        for (output, version) in [
            ("0.16.5\n", Some("0.16.5")),
            ("zcode 0.16.5", Some("0.16.5")),
            ("zcode v0.16.5 (build 7)\r\n", Some("0.16.5")),
            ("warning: node 24\n0.16.5-beta.1\n", Some("0.16.5-beta.1")),
            ("0.16", None),
            ("0.16.5.1", None),
            ("0.16.x", None),
            ("0.16.5-", None),
            ("", None),
        ] {
            assert_eq!(version_token(output), version, "{output:?}");
        }
    }
}

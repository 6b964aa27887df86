//! Every kind of secret in every clothing it has been seen in, and what must survive.

use proptest::prelude::*;

use super::*;

const CANARY: &str = "c4n4ry5ecretV4lue0123456789";

#[test]
fn secrets_do_not_survive() {
    let key = format!("sk-{CANARY}");
    let glm = format!("0123456789abcdef0123456789ABCDEF.{CANARY}");
    let jwt = format!("eyJhbGciOiJIUzI1NiJ9.eyJ{CANARY}.{CANARY}");
    let enc = format!("enc:v1:AAAAAAAAAAAAAAAA.{CANARY}.{CANARY}");
    for line in [
        format!("Authorization: Bearer {CANARY}"),
        format!("authorization: Basic {CANARY}="),
        format!("got bearer {CANARY}, sent"),
        format!("Basic {CANARY}"),
        format!("Bearer%20{CANARY}"),
        format!("bearer token: {CANARY}"),
        format!("Bearer {enc}"),
        format!("\"headers\":{{\"X-Any\":\"{CANARY}\"}}"),
        format!("{{\"authorization\":\"{CANARY}\"}}"),
        format!("{{\\\"apiKey\\\":\\\"{CANARY}\\\"}}"),
        format!("{{\\\\\\\"apiKey\\\\\\\":\\\\\\\"{CANARY}\\\\\\\"}}"),
        format!("[\"authorization\", \"{CANARY}\"]"),
        format!("X-Api-Key: {CANARY}"),
        format!("api_key={CANARY}"),
        format!("ANTHROPIC_AUTH_TOKEN={CANARY}"),
        format!("ZCODE_CREDENTIAL_SECRET='{CANARY} and more {CANARY}'"),
        format!("password: two words {CANARY}"),
        format!("\"password\" : \"a\\\"b{CANARY}\""),
        format!("--api-key {CANARY}"),
        format!("--token={CANARY}"),
        format!("curl -H 'Cookie: a=1; sid={CANARY}' x"),
        format!("Set-Cookie: sid={CANARY}; Path=/; HttpOnly"),
        format!("cookie: [redacted]; sid={CANARY}"),
        format!("captchaVerifyParam={CANARY}"),
        format!("{{\"captcha\":{{\"sceneId\":\"x\",\"param\":\"{CANARY}\"}}}}"),
        format!("{{\"captcha\":{{\"sceneId\":\"x\",\"param\":\"{CANARY}"),
        format!("https://user:{CANARY}@host/x"),
        format!("https://{CANARY}@host/x"),
        format!("http://proxy:a/{CANARY}@host:80"),
        format!("https://host/x?a=1&code={CANARY}&b=2"),
        format!("https://host/x?access_token={CANARY}#y"),
        format!("https://host/x#access_token={CANARY}"),
        format!("q=%3Faccess_token%3D{CANARY}"),
        format!("oauth:zai:access_token={CANARY}"),
        key.clone(),
        format!("a\\n{key}"),
        format!("a%3D{key}"),
        format!("a\\u003d{key}"),
        format!("({key})"),
        format!("api_{CANARY}"),
        glm.clone(),
        format!("key \"{glm}\" refused"),
        jwt.clone(),
        format!("x={jwt};"),
        enc.clone(),
        format!("\"{enc}\""),
        format!("ghp_{CANARY}"),
    ] {
        let out = redact(&line);
        assert!(!out.contains(CANARY), "{line} -> {out}");
        assert!(out.contains(REDACTED), "{line} -> {out}");
        assert_eq!(redact(&out), out, "{line}");
    }
}

#[test]
fn what_stood_around_a_secret_stays() {
    for (line, expected) in [
        ("401 for Bearer abc.def, giving up", "401 for Bearer [redacted], giving up"),
        ("https://me:pw@proxy:8080/x", "https://[redacted]@proxy:8080/x"),
        ("GET /x?token=abc&page=2 failed", "GET /x?token=[redacted]&page=2 failed"),
        ("{\"apiKey\":\"abc\",\"model\":\"glm-5\"}", "{\"apiKey\":\"[redacted]\",\"model\":\"glm-5\"}"),
        ("{\\\"apiKey\\\":\\\"abc\\\",\\\"n\\\":1}", "{\\\"apiKey\\\":\\\"[redacted]\\\",\\\"n\\\":1}"),
        ("open /home/bob/.zcode/v2: ENOENT", "open ~/.zcode/v2: ENOENT"),
        ("file:///Users/bob/x", "file://~/x"),
        ("(/root/x) and /rooted/x", "(~/x) and /rooted/x"),
        ("at C:\\Users\\Bob Smith\\x", "at ~\\x"),
        ("at C:\\\\Users\\\\bob\\\\x", "at ~\\\\x"),
        ("d:/users/bob/x", "~/x"),
        ("/home/bob and /etc/x", "~ and /etc/x"),
    ] {
        assert_eq!(redact(line), expected);
    }
}

#[test]
fn harmless_text_is_returned_as_it_came() {
    for line in [
        "",
        "totalTokens: 1234",
        "{\"totalTokens\":1234,\"inputTokens\": 5,\"maxTokens\":null}",
        "tokenCount=17, cachedTokens=3",
        "session 0123456789abcdef0123456789abcdef closed",
        "sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "task-abcdefghijklmnopqrstuvwxyz",
        "basic checks passed",
        "credentials.json: ENOENT",
        "http://127.0.0.1:8080/a@b",
        "http://[::1]:80/a@b",
        "the token was refused",
        "code=ZA101 state=ready",
        "ZA501 [auth] ZCode is not signed in on this machine",
        "headersApplied:false",
        "5f0c2d9e-1111-4222-8333-abcdefabcdef",
    ] {
        assert!(matches!(redact(line), Cow::Borrowed(_)), "{line} -> {}", redact(line));
    }
}

#[test]
fn the_catalogue_is_never_redacted() {
    for code in crate::ErrorCode::ALL {
        let message = crate::Failure::new(*code).message();
        assert_eq!(redact(&message), message, "{code}");
    }
}

#[test]
fn a_known_home_is_shortened_at_its_border() {
    assert_eq!(redact_home("/data/bob/x /data/bobby", "/data/bob/"), "~/x /data/bobby");
    assert_eq!(redact_home("/x", "/"), "/x");
    assert_eq!(redact_home("D:\\me\\x", "D:\\me"), "~\\x");
}

#[test]
fn long_hostile_text_is_done_in_time() {
    let started = std::time::Instant::now();
    for piece in [
        "://",
        "token=",
        "\"secret\":{",
        "sk-",
        "/home/",
        "C:\\Users\\",
        "cookie:",
        "eyJ",
        "token\\\"",
        "a-_",
    ] {
        let text = piece.repeat(64 * 1024 / piece.len());
        let out = redact(&text);
        assert!(out.len() <= text.len() * 4);
    }
    assert!(started.elapsed() < std::time::Duration::from_secs(10), "{:?}", started.elapsed());
}

fn clothing() -> impl Strategy<Value = (String, String)> {
    let piece = prop::sample::select(vec![
        "Bearer ",
        "basic ",
        "sk-",
        "api_",
        "eyJ",
        "enc:v1:",
        "://",
        "@",
        "token",
        "Cookie",
        ":",
        "=",
        "\"",
        "'",
        "\\",
        "{",
        "}",
        "[",
        "]",
        " ",
        "\n",
        "/home/",
        "/root",
        "C:\\Users\\",
        "?",
        "&",
        "[redacted]",
        "~",
        "password",
        "headers",
        "--",
        "%20",
        "%3D",
        "0123456789abcdef0123456789abcdef.",
        "abcdefghijklmnop",
        "ü",
        "\u{2028}",
        ",",
        "totalTokens",
        "1234",
    ]);
    let noise = || {
        prop::collection::vec(prop_oneof![3 => piece.clone().prop_map(str::to_owned), 1 => ".{0,4}"], 0..12)
            .prop_map(|pieces| pieces.concat())
    };
    (noise(), noise())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn it_is_idempotent_and_never_panics((left, right) in clothing()) {
        let text = left + &right;
        let once = redact(&text).into_owned();
        prop_assert_eq!(redact(&once).into_owned(), once.clone());
        prop_assert_eq!(redact_home(&once, "/home").is_empty(), once.is_empty());
    }

    #[test]
    fn a_key_never_survives_its_surroundings((left, right) in clothing(), shape in 0..4_usize, tail in "[A-Za-z0-9]{20,40}") {
        let secret = match shape {
            0 => format!("sk-{tail}"),
            1 => format!("0123456789abcdef0123456789abcdef.{tail}"),
            2 => format!("enc:v1:{tail}"),
            _ => format!("eyJ{tail}.{tail}"),
        };
        // A letter, digit or dash directly before it makes another word of it.
        let text = format!("{left} {secret}{right}");
        let out = redact(&text);
        prop_assert!(!out.contains(&tail), "{} -> {}", text, out);
    }

    #[test]
    fn random_text_never_panics(text in any::<String>()) {
        let once = redact(&text).into_owned();
        prop_assert_eq!(redact(&once).into_owned(), once);
    }

    #[test]
    fn counters_stay(name in "(total|input|output|cached|reasoning)_?[Tt]okens", count in 0..10_000_000_u64) {
        for text in [format!("{name}={count}"), format!("{name}: {count}, x"), format!("{{\"{name}\":{count}}}")] {
            prop_assert_eq!(redact(&text).into_owned(), text.clone());
        }
    }
}

//! Hands the target triple to the program, which has no other way to know it.

fn main() {
    let target = std::env::var("TARGET").unwrap_or_else(|_| "unknown".to_owned());
    println!("cargo::rustc-env=ZCODE_ACP_TARGET={target}");
    println!("cargo::rerun-if-changed=build.rs");
}

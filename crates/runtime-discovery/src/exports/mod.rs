//! Names an ES module exports, read from its text without running it.
//!
//! `export` is a reserved word, so it is enough to tell code from strings, comments, templates and regular expressions and
//! to read what follows the word. Names behind a destructuring pattern or `export *` are not found; the host's modules
//! have neither.

mod lexer;

use std::collections::BTreeSet;

use lexer::{Lexer, Token};

/// Names the module exports. Linear in its size, which the caller bounds.
pub fn exported_names(module: &[u8]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut lexer = Lexer::new(module);
    // Inside `export const a = 1, b = 2`: the nesting it stands at, and whether a name comes next.
    let mut declaring: Option<(usize, bool)> = None;
    let mut after_dot = false;
    while let Some(lexeme) = lexer.next() {
        if let Some((depth, expecting)) = declaring {
            declaring = match lexeme.token {
                Token::Word(name) if expecting => {
                    names.insert(text(name));
                    Some((depth, false))
                }
                // Two operands on two lines: the statement ended without a semicolon.
                Token::Word(_) if lexeme.starts_statement && lexer.depth() == depth => None,
                Token::Punct(b';') if lexer.depth() <= depth => None,
                Token::Punct(b',') if lexer.depth() == depth => Some((depth, true)),
                _ if lexer.depth() < depth => None,
                _ => Some((depth, false)),
            };
        }
        if lexeme.token == Token::Word(b"export") && !after_dot {
            declaring = export(&mut lexer, &mut names);
            after_dot = false;
        } else {
            after_dot = lexeme.token == Token::Punct(b'.');
        }
    }
    names
}

/// Reads what follows `export`; returns the state of a declaration list if one has begun.
fn export(lexer: &mut Lexer<'_>, names: &mut BTreeSet<String>) -> Option<(usize, bool)> {
    let mut token = lexer.next()?.token;
    if token == Token::Word(b"async") {
        token = lexer.next()?.token;
    }
    match token {
        Token::Punct(b'{') => clause(lexer, names),
        Token::Punct(b'*') => names.extend(namespace(lexer)),
        Token::Word(b"default") => {
            names.insert("default".to_owned());
        }
        Token::Word(b"function" | b"class") => {
            let mut name = lexer.next()?.token;
            if name == Token::Punct(b'*') {
                name = lexer.next()?.token;
            }
            if let Token::Word(name) = name {
                names.insert(text(name));
            }
        }
        Token::Word(b"const" | b"let" | b"var") => return Some((lexer.depth(), true)),
        _ => {}
    }
    None
}

/// Reads `as name`.
fn namespace(lexer: &mut Lexer<'_>) -> Option<String> {
    let named = lexer.next()?.token == Token::Word(b"as");
    match lexer.next()?.token {
        Token::Word(name) | Token::Text(name) if named => Some(text(name)),
        _ => None,
    }
}

/// Reads `a as b, c, d as "e" }`. Anything else in it means that it was no export clause after all.
fn clause(lexer: &mut Lexer<'_>, names: &mut BTreeSet<String>) {
    let mut found = Vec::new();
    let mut current = None;
    while let Some(lexeme) = lexer.next() {
        match lexeme.token {
            Token::Word(b"as") if current.is_some() => match lexer.next().map(|lexeme| lexeme.token) {
                Some(Token::Word(name) | Token::Text(name)) => current = Some(name),
                _ => return,
            },
            Token::Word(name) | Token::Text(name) if current.is_none() => current = Some(name),
            Token::Punct(b',') => found.extend(current.take()),
            Token::Punct(b'}') => {
                found.extend(current);
                names.extend(found.into_iter().map(text));
                return;
            }
            _ => return,
        }
    }
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(module: &str) -> Vec<String> {
        exported_names(module.as_bytes()).into_iter().collect()
    }

    #[test]
    fn the_forms_of_export() {
        for (module, expected) in [
            ("export{a as g,b as i,c as j};", "g i j"),
            ("var a;export {\n  a as g, // first\n  b,\n  /* c */ c as default,\n};", "b default g"),
            ("export class g{}export function i(){}export async function*j(){}", "g i j"),
            ("export const a=1,b=[1,2],c=f(x,y),d={e,f};foo,bar", "a b c d"),
            ("export let a=1\nfoo(),bar", "a"),
            ("export default class Q{}", "default"),
            ("export*as ns from'./x';export*from'./y';export{q as\"a b\"}from'z'", "a b ns"),
            ("x.export{a as b}", ""),
            ("x={export:1,exports:{a}};exports={b}", ""),
        ] {
            assert_eq!(names(module).join(" "), expected, "{module}");
        }
    }

    #[test]
    fn text_that_only_looks_like_an_export_is_none() {
        for module in [
            "'export{a}'",
            "\"\\\"export{a}\"",
            "// export{a}\n",
            "/* export{a} */",
            "`export{a}`",
            "`x${y+`export{a}`}export{a}`",
            "x=/export{a}/",
            "x=/[/]export{a}/g",
            "if(x)/export{a}/.test(y)",
            "return/'export{a}/",
        ] {
            assert_eq!(names(module), Vec::<String>::new(), "{module}");
        }
    }

    #[test]
    fn minified_code_before_it_does_not_hide_an_export() {
        for before in [
            "a=b/c;d='/';",
            "a=(b)/c;e=f[0]/'x'.length;",
            "a=b++/c;d=\"/\";",
            "x=/[\"'`]/;",
            "x=y?/`/:/\\//;",
            "s=`${a?`'`:\"`\"}/`;",
            "s=`\\`${{a:`}`}.a}`;",
            "for(;;)/'/.test(x);",
            "if(a){}/\"/.test(b);",
            "f=()=>{return/'/};",
            "z={a:1}/2;q='/';",
            "a=1./2;b='/';",
            "/* ' */// \"\n",
            "a.return/2;b='/';",
            "a=b\n/c;d='/';",
            "#!/usr/bin/env node '\n",
            "class A{#x=1;get #y(){return this.#x/2}};'/';",
            "ü=`ß`;",
        ] {
            let module = format!("{before}export{{t as g}};");
            assert_eq!(names(&module), ["g"], "{module}");
        }
    }

    #[test]
    fn pathological_text_takes_linear_time() {
        let begun = std::time::Instant::now();
        exported_names("/[".repeat(1_000_000).as_bytes());
        exported_names("`${".repeat(700_000).as_bytes());
        exported_names("export{".repeat(300_000).as_bytes());
        assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            exported_names(&bytes);
        }

        #[test]
        fn no_mixture_of_tokens_makes_it_panic(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just("export"), Just("{"), Just("}"), Just("`"), Just("${"), Just("/"), Just("'"), Just("\\"),
                    Just("const"), Just(","), Just("a"), Just(" as "), Just("["), Just("("), Just(")"), Just("\n"),
                ],
                0..60,
            )
        ) {
            exported_names(parts.concat().as_bytes());
        }
    }
}

//! What functions get and give; source of the types: the manual's page on types in the shell, and on `$function`.

use bson::oid::ObjectId;
use bson::{RawBson, RawBsonRef, RawDocumentBuf, rawdoc};

use crate::{Function, Kind, ScriptError, Scripting, begin};

fn call(code: &str, arguments: &[RawBsonRef<'_>]) -> Result<RawBson, ScriptError> {
    Function::new(code, Kind::Function)?.call(RawBsonRef::Null, arguments)
}

fn value_of(code: &str) -> RawBson {
    call(&format!("function () {{ return {code}; }}"), &[]).unwrap()
}

#[test]
fn values_come_back_as_they_went_in() {
    let _running = begin(Scripting::Enabled);
    let time = bson::DateTime::from_millis(1_600_000_000_123);
    let given = rawdoc! {
        "text": "x\u{0}ä€😀", "double": 1.5, "truth": true, "nothing": RawBson::Null, "list": [1.0, "a", { "b": 2.0 }],
        "id": ObjectId::from_bytes([7; 12]), "long": i64::MIN, "date": time,
        "decimal": RawBson::Decimal128("1.50".parse().unwrap()),
        "binary": bson::Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes: vec![1, 2, 250] },
        "stamp": bson::Timestamp { time: u32::MAX, increment: 9 }, "min": RawBson::MinKey, "max": RawBson::MaxKey,
        "code": RawBson::JavaScriptCode("function () {}".to_owned()), "": {}, "__proto__": 1.0,
    };
    let back = call("function (value) { return value; }", &[RawBsonRef::Document(&given)]).unwrap();
    assert_eq!(back, RawBson::Document(given));
}

#[test]
fn numbers_are_doubles_unless_said_otherwise() {
    let _running = begin(Scripting::Enabled);
    assert_eq!(value_of("1 + 1"), RawBson::Double(2.0));
    assert_eq!(value_of("NumberInt(7.9)"), RawBson::Int32(7));
    assert_eq!(value_of("NumberLong('9223372036854775807')"), RawBson::Int64(i64::MAX));
    assert_eq!(value_of("NumberLong(5) + 1"), RawBson::Double(6.0));
    assert_eq!(value_of("undefined"), RawBson::Undefined);
    assert_eq!(value_of("null"), RawBson::Null);
}

#[test]
fn an_int_stays_one_in_its_place() {
    let _running = begin(Scripting::Enabled);
    let given = rawdoc! { "a": 1, "b": 2.0, "inner": { "c": 3, "list": [4, 5], "mixed": [6, 7.0, 8] }, "text": "9" };
    let back = |code: &str| call(&format!("function (value) {{ {code} }}"), &[RawBsonRef::Document(&given)]).unwrap();
    assert_eq!(back("return value;"), RawBson::Document(given.clone()));
    assert_eq!(back("return value.a;"), RawBson::Double(1.0));
    // Whatever has its place is an int if it can be one.
    let changed =
        "value.a += 5; value.b += 5; value.inner.c /= 2; value.inner.list.push(10); value.new = 1; return value;";
    let expected = rawdoc! {
        "a": 6, "b": 7.0, "inner": { "c": 1.5, "list": [4, 5, 10.0], "mixed": [6, 7.0, 8] }, "text": "9", "new": 1.0,
    };
    assert_eq!(back(changed), RawBson::Document(expected));
    assert_eq!(back("return {a: value.a, inner: value.inner.list};"), {
        RawBson::Document(rawdoc! { "a": 1.0, "inner": [4, 5] })
    });
    assert_eq!(back("value.a = 2 ** 31; value.inner = 0; value.text = -0; return value;"), {
        RawBson::Document(rawdoc! { "a": 2_147_483_648.0, "b": 2.0, "inner": 0.0, "text": -0.0 })
    });
}

#[test]
fn the_shells_types_and_helpers_are_there() {
    let _running = begin(Scripting::Enabled);
    assert_eq!(value_of("Array.sum([1, 2, 3])"), RawBson::Double(6.0));
    assert_eq!(
        value_of("tojsononeline({a: [1, 'x'], b: ISODate('2020-01-02T03:04:05Z')})"),
        RawBson::String(r#"{ "a" : [ 1, "x" ], "b" : ISODate("2020-01-02T03:04:05Z") }"#.to_owned())
    );
    assert_eq!(
        value_of("tojson(ObjectId('0123456789abcdef01234567'))"),
        RawBson::String(r#"ObjectId("0123456789abcdef01234567")"#.to_owned())
    );
    assert_eq!(
        value_of("UUID('00112233-4455-6677-8899-aabbccddeeff').base64()"),
        RawBson::String("ABEiM0RVZneImaq7zN3u/w==".to_owned())
    );
    assert_eq!(value_of("HexData(0, '616263').base64()"), RawBson::String("YWJj".to_owned()));
    assert_eq!(value_of("new ObjectId().str.length"), RawBson::Double(24.0));
}

#[test]
fn conditions_are_functions_expressions_or_bodies() {
    let _running = begin(Scripting::Enabled);
    let document = rawdoc! { "a": 1.0, "b": 1.0 };
    let truth =
        |code: &str| Function::new(code, Kind::Condition).unwrap().is_true_of(RawBsonRef::Document(&document)).unwrap();
    for code in [
        "this.a == this.b",
        "function () { return this.a === 1; }",
        "function () { return obj.a === 1; }",
        "return this.a == 1",
        "var c = this.a; return c == 1;",
        "() => obj.a == 1",
        "'text'",
    ] {
        assert!(truth(code), "{code}");
    }
    for code in ["this.a != this.b", "0", "''", "null", "NaN", "return undefined"] {
        assert!(!truth(code), "{code}");
    }
}

#[test]
fn what_is_emitted_is_given_in_order() {
    let _running = begin(Scripting::Enabled);
    let map = Function::new("function () { emit(this.k, 1); emit('z', {n: 2}); }", Kind::Function).unwrap();
    let document = rawdoc! { "k": "x" };
    let emitted = map.emitted(RawBsonRef::Document(&document)).unwrap();
    let expected = [
        (RawBson::String("x".to_owned()), RawBson::Double(1.0)),
        (RawBson::String("z".to_owned()), RawBson::Document(rawdoc! { "n": 2.0 })),
    ];
    assert_eq!(emitted, expected);
}

#[test]
fn mistakes_are_told() {
    let _running = begin(Scripting::Enabled);
    let told = |code: &str| call(code, &[]).unwrap_err().to_string();
    assert!(matches!(call("function (", &[]), Err(ScriptError::Code(_))));
    assert!(matches!(call("5", &[]), Err(ScriptError::Code(_))));
    assert_eq!(told("function () { return missing.a; }"), "ReferenceError: missing is not defined");
    assert_eq!(told("function () { throw new TypeError('x'); }"), "TypeError: x");
    assert_eq!(told("function () { throw 'text'; }"), "text");
    assert!(matches!(call("function () { var a = {}; a.a = a; return a; }", &[]), Err(ScriptError::Value(_))));
    assert!(matches!(call("function () { return Symbol('x'); }", &[]), Err(ScriptError::Value(_))));
}

/// A command that is to stop from the start.
struct Stopped;

impl document::work::Watch for Stopped {
    fn interruption(&self) -> Option<document::Interruption> {
        Some(document::Interruption { name: "Interrupted", message: "stop" })
    }
}

#[test]
fn memory_stack_and_time_are_bounded() {
    let running = begin(Scripting::Enabled);
    let memory = "function () { var all = []; for (;;) all.push(new Array(1000).fill(1)); }";
    let full = call(memory, &[]);
    assert!(matches!(full, Err(ScriptError::Memory)), "{full:?}");
    assert!(matches!(call("function f() { return f() + 1; }", &[]), Err(ScriptError::Thrown(_))));
    assert!(call("function () { return 'x'.repeat(1 << 28); }", &[]).is_err());
    // Without memory it throws null; who throws null has memory.
    assert!(matches!(call("function () { throw null; }", &[]), Err(ScriptError::Thrown(_))));
    // The engine is of use afterwards.
    assert_eq!(value_of("1"), RawBson::Double(1.0));
    drop(running);
    let _running = begin(Scripting::Enabled);
    assert_eq!(value_of("1"), RawBson::Double(1.0));
    let _watching = document::work::watch(std::sync::Arc::new(Stopped));
    for code in ["for (;;) {}", "try { for (;;) {} } catch (e) {}", "sleep(1e9)", "/(a+)+b/.test('a'.repeat(40))"] {
        let stopped = call(&format!("function () {{ {code} }}"), &[]);
        assert!(matches!(stopped, Err(ScriptError::Interrupted(_))), "{code}: {stopped:?}");
    }
}

#[test]
fn nothing_of_the_machine_or_of_other_commands_is_reachable() {
    let running = begin(Scripting::Enabled);
    for name in ["std", "os", "require", "process", "fetch", "load", "XMLHttpRequest", "Worker", "db", "cat", "ls"] {
        assert_eq!(value_of(&format!("typeof {name}")), RawBson::String("undefined".to_owned()), "{name}");
    }
    // A promise of a module that there is not.
    assert_eq!(call("function () { return import('std'); }", &[]).unwrap(), RawBson::Document(rawdoc! {}));
    value_of("globalThis.left = 1");
    drop(running);
    let _running = begin(Scripting::Enabled);
    assert_eq!(value_of("typeof left"), RawBson::String("undefined".to_owned()));
}

#[test]
fn where_they_are_disabled_no_function_is_made() {
    let _running = begin(Scripting::Disabled);
    assert!(matches!(Function::new("function () {}", Kind::Function), Err(ScriptError::Disabled)));
}

#[test]
fn a_scope_defines_globals() {
    let _running = begin(Scripting::Enabled);
    let scope: RawDocumentBuf =
        rawdoc! { "factor": 3.0, "times": RawBson::JavaScriptCode("function (x) { return x * factor; }".to_owned()) };
    Function::define_globals(&scope).unwrap();
    assert_eq!(value_of("times(2)"), RawBson::Double(6.0));
}

//! The tidy rules as a test, so that `cargo test` holds them. The same as `cargo xtask tidy`.

#[test]
#[allow(clippy::expect_used)]
fn the_repository_is_tidy() {
    let complaints = xtask::tidy::complaints(&xtask::workspace::root()).expect("the repository can be read");
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

//! The protocol's code is the code that its definition generates.

use sha2::{Digest, Sha256};

#[test]
fn the_generated_code_is_current() {
    let definition = include_str!("../../proto/agent.proto");
    let [_, noted, code] = include_str!("../../src/proto.rs").splitn(3, '\n').collect::<Vec<_>>()[..] else {
        panic!("proto.rs has no hash")
    };
    let hash = Sha256::new().chain_update(definition).chain_update(code).finalize();
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        noted.strip_prefix("// "),
        Some(&*hash),
        "agent.proto or proto.rs was edited: run `make protocol`"
    );
}

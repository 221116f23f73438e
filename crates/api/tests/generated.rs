//! The committed code is what the .proto file says. If this fails, run it with `CONCLAVE_GENERATE=1` and
//! commit what it has written.

use std::fs;
use std::path::Path;

use prost::Message;
use tonic_prost_build::Config;

#[test]
fn the_code_is_that_of_the_proto_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let files = protox::compile(["conclave/v1.proto"], [root.join("proto")]).expect("it compiles");
    fs::write(out.join("conclave.v1.bin"), files.encode_to_vec()).expect("it can be written");
    let in_json = "#[derive(serde::Serialize, serde::Deserialize)]";
    let by_name = "#[serde(rename_all = \"snake_case\")]";
    tonic_prost_build::configure()
        .out_dir(out)
        .build_transport(false)
        .message_attribute(".", in_json)
        .message_attribute(".", "#[serde(default, deny_unknown_fields)]")
        .enum_attribute(".", in_json)
        .enum_attribute(".", by_name)
        .field_attribute("mode", "#[serde(with = \"crate::mode\")]")
        .field_attribute("kind", "#[serde(with = \"crate::mode\")]")
        .field_attribute("cause", "#[serde(with = \"crate::cause\")]")
        .field_attribute("value", "#[serde(with = \"crate::text\")]")
        // These have the key of a session; how they are shown is written by hand, but not what is in them.
        .skip_debug(["Ask", "Open", "Opened"])
        .enum_attribute("Ask.what", "#[derive(Debug)]")
        // Both are long and rare, and every answer would be moved about in as much room.
        .boxed("Tell.what.failed")
        .boxed("Tell.what.leader")
        .compile_fds_with_config(files, Config::new())
        .expect("code is made");
    let pairs = [("conclave.v1.rs", "src/v1.rs"), ("conclave.v1.bin", "src/v1.bin")];
    for (made, committed) in pairs {
        let made = fs::read(out.join(made)).expect("it was made");
        let committed = root.join(committed);
        if std::env::var_os("CONCLAVE_GENERATE").is_some() {
            fs::write(&committed, &made).expect("it can be written");
        }
        let committed = fs::read(committed).expect("it is committed");
        assert!(made == committed, "the .proto file was changed; see above");
    }
}

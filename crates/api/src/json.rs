//! The JSON form of fields that gRPC has as numbers and bytes.

/// A field that is one of an enumeration has its name.
macro_rules! by_name {
    ($module:ident, $type:ident) => {
        pub(crate) mod $module {
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            use crate::v1::$type;

            pub(crate) fn serialize<S: Serializer>(number: &i32, to: S) -> Result<S::Ok, S::Error> {
                $type::try_from(*number).unwrap_or_default().serialize(to)
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
                $type::deserialize(from).map(i32::from)
            }
        }
    };
}

by_name!(mode, Mode);
by_name!(cause, Cause);

/// What a leader proclaims is bytes; in JSON it is text, as it mostly is. What is no text is shown as
/// well as can be.
pub(crate) mod text {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&String::from_utf8_lossy(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        String::deserialize(from).map(String::into_bytes)
    }
}

#[cfg(test)]
mod tests {
    use crate::v1::{Acquire, Campaign, Lost, Mode, Want};

    #[test]
    fn json_is_what_people_write() {
        let text = r#"{"wants":[{"lock":"disk","mode":"shared"}],"timeout_ms":0}"#;
        let acquire: Acquire = serde_json::from_str(text).expect("it is read");
        let want = Want { lock: "disk".into(), mode: Mode::Shared.into(), permits: 0, of: 0 };
        assert_eq!((acquire.wants, acquire.timeout_ms), (vec![want], Some(0)));
        let campaign: Campaign =
            serde_json::from_str(r#"{"election":"web","value":"here"}"#).expect("it is read");
        assert_eq!(campaign.value, b"here");
        let lost = Lost { lock: "disk".into(), token: 7, cause: 6 };
        let text = serde_json::to_string(&lost).expect("it is written");
        assert_eq!(text, r#"{"lock":"disk","token":7,"cause":"forced"}"#);
    }

    #[test]
    fn what_does_not_exist_is_refused() {
        let wrong = r#"{"wants":[{"lock":"disk","mode":"alone"}]}"#;
        let error = serde_json::from_str::<Acquire>(wrong).expect_err("there is no such mode");
        assert!(error.to_string().contains("`exclusive`, `shared`, `permits`"), "{error}");
        let error = serde_json::from_str::<Acquire>(r#"{"timeout":0}"#).expect_err("no such field");
        assert!(error.to_string().contains("unknown field `timeout`"), "{error}");
    }
}

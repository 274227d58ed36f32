//! Where traces of operations are sent, settled. Called by `configuration`.

use http::Uri;

use super::{ConfigurationError, Settings};

/// Where collectors take traces, by the specification.
const PATH: &str = "/v1/traces";

/// See the module's head.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceConfiguration {
    /// The collector's URL, with its path.
    pub collector: Uri,
    /// The share of operations that are traced.
    pub share: f64,
}

/// `None`: nothing is.
pub(super) fn traces(settings: &Settings) -> Result<Option<TraceConfiguration>, ConfigurationError> {
    let share = settings.otlp_sample.unwrap_or(1.0);
    if !(0.0..=1.0).contains(&share) {
        return Err(ConfigurationError::bad_value("otlp-sample", "must be from 0 to 1"));
    }
    let Some(text) = settings.otlp.as_deref() else {
        return match settings.otlp_sample {
            Some(_) => Err(ConfigurationError::bad_value("otlp-sample", "means nothing without --otlp")),
            None => Ok(None),
        };
    };
    let wrong =
        || ConfigurationError::bad_value("otlp", format!("'{text}' is not http://HOST:PORT or https://HOST:PORT"));
    let given: Uri = text.parse().map_err(|_| wrong())?;
    if !matches!(given.scheme_str(), Some("http" | "https")) || given.host().is_none_or(str::is_empty) {
        return Err(wrong());
    }
    let mut parts = given.into_parts();
    if parts.path_and_query.as_ref().is_none_or(|path| path == "/") {
        parts.path_and_query = Some(http::uri::PathAndQuery::from_static(PATH));
    }
    let collector = Uri::from_parts(parts).map_err(|_| wrong())?;
    Ok(Some(TraceConfiguration { collector, share }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(url: &str) -> Result<String, String> {
        let settings = Settings { otlp: Some(url.to_owned()), ..Settings::default() };
        let resolved = traces(&settings).map_err(|error| error.to_string())?;
        Ok(resolved.unwrap().collector.to_string())
    }

    #[test]
    fn a_collector_without_a_path_has_the_usual_one() {
        assert_eq!(resolved("http://collector:4318").unwrap(), "http://collector:4318/v1/traces");
        assert_eq!(resolved("https://collector:4318/").unwrap(), "https://collector:4318/v1/traces");
        assert_eq!(resolved("http://[::1]:4318/own?x=1").unwrap(), "http://[::1]:4318/own?x=1");
        for wrong in ["collector:4318", "grpc://collector:4317", "http://", "", "/v1/traces"] {
            assert!(resolved(wrong).unwrap_err().contains("is not http://"), "{wrong}");
        }
        let alone = Settings { otlp_sample: Some(0.5), ..Settings::default() };
        assert!(traces(&alone).is_err());
        let beyond = Settings { otlp_sample: Some(1.5), otlp: Some("http://a".to_owned()), ..Settings::default() };
        assert!(traces(&beyond).is_err());
    }
}

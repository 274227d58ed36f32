//! A part of an object store: whose it is, its bucket, and what the names in it begin with.
//!
//! Called by `place` with a URL, and by `cloud_store` for a client. Keys and endpoints are taken from the environment as the vendors'
//! tools take them, never from the URL: URLs are in logs and in lists of processes.

use std::fmt;
use std::sync::Arc;

use object_store::RetryConfig;
use object_store::aws::AmazonS3Builder;
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;

use crate::cloud_connection::Connector;

/// What a URL of an object store begins with.
pub const SCHEMES: &[&str] = &["s3", "gs", "az"];

/// Whose object store it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vendor {
    /// Amazon's S3, and everything that speaks its protocol.
    Amazon,
    Google,
    Azure,
}

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudPlace {
    vendor: Vendor,
    bucket: String,
    /// Of all names; empty for the whole bucket.
    prefix: String,
}

impl fmt::Display for CloudPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.vendor {
            Vendor::Amazon => "s3",
            Vendor::Google => "gs",
            Vendor::Azure => "az",
        };
        write!(formatter, "{scheme}://{}", self.bucket)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(formatter, "/{}", self.prefix) }
    }
}

impl CloudPlace {
    /// From one of `SCHEMES` and what is behind `://`. An error is the reason.
    pub(crate) fn parse(scheme: &str, rest: &str) -> Result<CloudPlace, String> {
        let vendor = match scheme {
            "s3" => Vendor::Amazon,
            "gs" => Vendor::Google,
            _ => Vendor::Azure,
        };
        if rest.contains(['%', '?', '#', '@']) {
            return Err("percent signs, question marks, number signs and at signs are not taken".to_owned());
        }
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        if bucket.is_empty() {
            return Err(format!("a bucket is missing, as in {scheme}://bucket/prefix"));
        }
        if prefix.split('/').any(str::is_empty) && !prefix.is_empty() {
            return Err("a part of its path is empty".to_owned());
        }
        Path::parse(prefix).map_err(|error| error.to_string())?;
        Ok(CloudPlace { vendor, bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }

    /// The store's own name for an object of ours.
    pub(crate) fn path_of(&self, name: &str) -> object_store::Result<Path> {
        let whole = [self.prefix.as_str(), name].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
        Ok(Path::parse(whole.join("/"))?)
    }

    /// A client for it. Nothing is asked of the store yet.
    pub(crate) fn client(&self, retry: RetryConfig) -> object_store::Result<Arc<dyn object_store::ObjectStore>> {
        Ok(match self.vendor {
            Vendor::Amazon => Arc::new(
                AmazonS3Builder::from_env()
                    .with_bucket_name(&self.bucket)
                    .with_retry(retry)
                    .with_http_connector(Connector)
                    .build()?,
            ),
            Vendor::Google => Arc::new(
                GoogleCloudStorageBuilder::from_env()
                    .with_bucket_name(&self.bucket)
                    .with_retry(retry)
                    .with_http_connector(Connector)
                    .build()?,
            ),
            Vendor::Azure => Arc::new(
                azure_from_environment()
                    .with_container_name(&self.bucket)
                    .with_retry(retry)
                    .with_http_connector(Connector)
                    .build()?,
            ),
        })
    }
}

/// Also by the names that Azure's own command line takes.
fn azure_from_environment() -> MicrosoftAzureBuilder {
    let own =
        [("AZURE_STORAGE_ACCOUNT", AzureConfigKey::AccountName), ("AZURE_STORAGE_KEY", AzureConfigKey::AccessKey)];
    own.into_iter().fold(MicrosoftAzureBuilder::from_env(), |builder, (name, key)| match std::env::var(name) {
        Ok(value) if builder.get_config_value(&key).is_none() => builder.with_config(key, value),
        _ => builder,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_behind_the_prefix() {
        let place = CloudPlace::parse("s3", "bucket/a/b").unwrap();
        assert_eq!(place.path_of("backups/1").unwrap().as_ref(), "a/b/backups/1");
        assert_eq!(place.path_of("").unwrap().as_ref(), "a/b");
        assert_eq!(CloudPlace::parse("s3", "bucket").unwrap().path_of("backups").unwrap().as_ref(), "backups");
        assert!(CloudPlace::parse("s3", "bucket/a/../b").is_err());
        assert!(CloudPlace::parse("az", "me:secret@bucket").is_err());
    }
}

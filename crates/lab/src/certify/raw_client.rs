//! A connection without a driver: one command out, one reply in, nothing tried again. For what drivers hide, and for thousands of
//! connections that cost little.

use bson::{Document, RawDocumentBuf};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::op_message::{self, number_message};

/// Commands go one after the other: each may have the same number.
const REQUEST_ID: i32 = 1;

pub(super) struct RawClient {
    stream: TcpStream,
}

impl RawClient {
    /// Connects to `host:port` and says hello.
    pub(super) async fn connect(address: &str) -> std::io::Result<RawClient> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut client = RawClient { stream };
        client.run(&bson::rawdoc! { "hello": 1, "$db": "admin" }).await?;
        Ok(client)
    }

    /// The reply's document, also of an error.
    pub(super) async fn run(&mut self, command: &RawDocumentBuf) -> std::io::Result<Document> {
        let mut message = op_message::message(command, None);
        number_message(&mut message, REQUEST_ID);
        self.stream.write_all(&message).await?;
        let mut reply = self.stream.read_i32_le().await?.to_le_bytes().to_vec();
        let length = op_message::length_of(&reply)?.unwrap_or_default();
        reply.resize(length, 0);
        self.stream.read_exact(reply.get_mut(4..).unwrap_or_default()).await?;
        let body = op_message::reply_body(&reply, REQUEST_ID).map_err(std::io::Error::other)?;
        Document::try_from(body).map_err(std::io::Error::other)
    }
}

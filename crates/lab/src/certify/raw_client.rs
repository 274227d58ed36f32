//! A connection without a driver: one command out, one reply in, nothing tried again. For what drivers hide, and for thousands of
//! connections that cost little.

use bson::{Document, RawDocumentBuf};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const OP_MSG: i32 = 2013;
/// Header, flags and the kind of the only section.
const BODY_OFFSET: usize = 21;
/// Of a reply; those asked for here are short.
const REPLY_BYTES_MAX: usize = 1 << 20;

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
        self.stream.write_all(&message(command)).await?;
        let length = self.stream.read_i32_le().await?;
        let rest = usize::try_from(length).unwrap_or(0).saturating_sub(4);
        if !(BODY_OFFSET..REPLY_BYTES_MAX).contains(&rest) {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        let mut reply = vec![0; rest];
        self.stream.read_exact(&mut reply).await?;
        let body = reply.get(BODY_OFFSET - 4..).unwrap_or_default();
        Document::from_reader(body).map_err(std::io::Error::other)
    }
}

/// An OP_MSG of one command.
fn message(command: &RawDocumentBuf) -> Vec<u8> {
    let body = command.as_bytes();
    let length = i32::try_from(BODY_OFFSET + body.len()).unwrap_or(i32::MAX);
    let header = [length, 1, 0, OP_MSG, 0];
    header.iter().flat_map(|number| number.to_le_bytes()).chain([0]).chain(body.iter().copied()).collect()
}

//! Messages of the protocol as bytes of a call.

use std::marker::PhantomData;

use prost::Message;
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

/// Writes `T` and reads `U`.
pub(crate) struct Messages<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Messages<T, U> {
    fn default() -> Self {
        Messages(PhantomData)
    }
}

impl<T, U> Codec for Messages<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = Writer<T>;
    type Decoder = Reader<U>;

    fn encoder(&mut self) -> Writer<T> {
        Writer(PhantomData)
    }

    fn decoder(&mut self) -> Reader<U> {
        Reader(PhantomData)
    }
}

pub(crate) struct Writer<T>(PhantomData<T>);

impl<T: Message> Encoder for Writer<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, message: T, bytes: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.encode(bytes).map_err(|it| Status::internal(it.to_string()))
    }
}

pub(crate) struct Reader<U>(PhantomData<U>);

impl<U: Message + Default> Decoder for Reader<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let message = U::decode(bytes).map_err(|it| Status::data_loss(it.to_string()))?;
        Ok(Some(message))
    }
}

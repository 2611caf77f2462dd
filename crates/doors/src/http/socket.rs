//! A socket in the file system, beside the port: for programs of the same person that rather open a file. Not on
//! systems without them.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[cfg(unix)]
pub(super) use self::unix::{Socket, taken};
#[cfg(not(unix))]
pub(super) use self::without::{Socket, taken};

/// A connection, however it has come.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(tokio::net::TcpStream),
    #[cfg(unix)]
    Socket(tokio::net::UnixStream),
}

macro_rules! either {
    ($self:expr, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Tcp($stream) => $call,
            #[cfg(unix)]
            Stream::Socket($stream) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        either!(self, it => Pin::new(it).poll_read(context, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        either!(self, it => Pin::new(it).poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        either!(self, it => Pin::new(it).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        either!(self, it => Pin::new(it).poll_shutdown(context))
    }
}

#[cfg(unix)]
mod unix {
    use std::{
        fs,
        os::unix::{
            fs::{FileTypeExt as _, PermissionsExt as _},
            net::{UnixListener, UnixStream},
        },
        path::{Path, PathBuf},
        task::{Context, Poll},
    };

    use super::Stream;
    use crate::error::{Error, Result};

    /// A socket that is listened at; its file goes with it.
    #[derive(Debug)]
    pub(crate) struct Socket {
        listener: UnixListener,
        path: PathBuf,
    }

    impl Socket {
        /// Listens at this file, for its owner alone. One that nobody listens at any more is replaced; what is no
        /// socket is left alone.
        pub(crate) fn bind(path: Option<&Path>) -> Result<Option<Socket>> {
            let Some(path) = path else { return Ok(None) };
            let failed = |source| Error::BindSocket { path: path.to_path_buf(), source };
            if let Ok(metadata) = fs::symlink_metadata(path) {
                let taken = !metadata.file_type().is_socket() || UnixStream::connect(path).is_ok();
                if taken {
                    return Err(failed(std::io::ErrorKind::AddrInUse.into()));
                }
                fs::remove_file(path).map_err(failed)?;
            }
            // Made where nobody else can reach it, then moved: at no moment can others open it.
            let parent = path.parent().unwrap_or_else(|| Path::new("."));
            let staging = parent.join(format!(".riddle-{}", std::process::id()));
            fs::create_dir_all(&staging).map_err(failed)?;
            fs::set_permissions(&staging, fs::Permissions::from_mode(0o700)).map_err(failed)?;
            let staged = staging.join("s");
            let bound = UnixListener::bind(&staged).and_then(|listener| {
                fs::set_permissions(&staged, fs::Permissions::from_mode(0o600))?;
                listener.set_nonblocking(true)?;
                fs::rename(&staged, path)?;
                Ok(listener)
            });
            let _ = fs::remove_dir_all(&staging);
            Ok(Some(Socket { listener: bound.map_err(failed)?, path: path.to_path_buf() }))
        }

        pub(crate) fn listener(&self) -> std::io::Result<tokio::net::UnixListener> {
            tokio::net::UnixListener::from_std(self.listener.try_clone()?)
        }
    }

    impl Drop for Socket {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.path);
        }
    }

    /// The next connection; without a socket there never is one.
    pub(crate) fn taken(
        of: Option<&tokio::net::UnixListener>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<Stream>> {
        let Some(listener) = of else { return Poll::Pending };
        listener.poll_accept(context).map(|it| it.map(|(it, _)| Stream::Socket(it)))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_socket_is_its_owners_alone_and_replaces_a_dead_one_only() {
            let home = tempfile::tempdir().expect("a folder");
            let path = home.path().join("riddle.sock");
            let socket = Socket::bind(Some(&path)).expect("bound").expect("a socket");
            let mode = fs::metadata(&path).expect("there").permissions().mode() & 0o777;
            assert_eq!(mode, 0o600);
            assert!(Socket::bind(Some(&path)).is_err(), "somebody listens there");
            assert!(UnixStream::connect(&path).is_ok());
            // As after a kill: the file is there, and nobody behind it.
            let dead = home.path().join("dead.sock");
            drop(UnixListener::bind(&dead).expect("bound"));
            assert!(Socket::bind(Some(&dead)).is_ok());
            let file = home.path().join("letter.txt");
            fs::write(&file, "dear").expect("written");
            assert!(Socket::bind(Some(&file)).is_err());
            assert_eq!(fs::read(&file).expect("there"), b"dear");
            drop(socket);
            assert!(!path.exists());
            assert!(Socket::bind(None).expect("none asked for").is_none());
        }
    }
}

#[cfg(not(unix))]
mod without {
    use std::{
        path::Path,
        task::{Context, Poll},
    };

    use super::Stream;
    use crate::error::{Error, Result};

    #[derive(Debug)]
    pub(crate) struct Socket(std::convert::Infallible);

    impl Socket {
        pub(crate) fn bind(path: Option<&Path>) -> Result<Option<Socket>> {
            let Some(path) = path else { return Ok(None) };
            let source = std::io::ErrorKind::Unsupported.into();
            Err(Error::BindSocket { path: path.to_path_buf(), source })
        }

        pub(crate) fn listener(&self) -> std::io::Result<()> {
            match self.0 {}
        }
    }

    pub(crate) fn taken(_: Option<&()>, _: &mut Context<'_>) -> Poll<std::io::Result<Stream>> {
        Poll::Pending
    }
}

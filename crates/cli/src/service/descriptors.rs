//! Passes open files to another process over a socket, and closes inherited ones.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// How many go together at most.
const MOST: usize = 2;

/// The socket that a process has in place of its standard input.
pub(crate) fn own_socket() -> io::Result<UnixStream> {
    std::io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from)
}

/// Sends open files, and a byte with them.
pub(crate) fn send(line: &UnixStream, files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(files));
    sendmsg(line, &[IoSlice::new(b"\n")], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for what [`send`] sends.
pub(crate) fn receive(line: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let (mut byte, flags) = ([0], RecvFlags::CMSG_CLOEXEC);
    let bytes = loop {
        match recvmsg(line, &mut [IoSliceMut::new(&mut byte)], &mut control, flags) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?.bytes,
        }
    };
    if bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let messages = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    Ok(messages.flatten().collect())
}

/// What is open besides the standard streams. At the start of a program that is what it has inherited.
pub(crate) fn inherited() -> Vec<RawFd> {
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let mut open: Vec<RawFd> = open.flatten().filter_map(number).collect();
    // The one by which they were listed is closed by now, and its number may soon be another's.
    open.retain(|number| *number > 2 && Path::new(&format!("/proc/self/fd/{number}")).is_symlink());
    open
}

/// Closes one of those that were [`inherited`].
pub(crate) fn close(descriptor: RawFd) {
    let _ = nix::unistd::close(descriptor);
}

//! Ties a child process to the thread that starts it: when that thread ends, however it ends, the kernel kills the child.
//!
//! This is the crate's one use of `unsafe`: there is no safe way to run `prctl(PR_SET_PDEATHSIG)` between fork and exec, and nothing but the kernel can clean up behind an emulator that
//! was itself killed with SIGKILL.

#![cfg_attr(target_os = "linux", allow(unsafe_code))]

use std::process::Command;

/// Has the child of this command killed when the calling thread ends. Call it, and spawn, on a thread that lives as long as the child may.
/// Elsewhere than on Linux it does nothing.
pub(crate) fn with_this_thread(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::process::CommandExt;
        let parent = rustix::process::getpid();
        let prepare = move || {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            // The parent may have died before the line above.
            if rustix::process::getppid() == Some(parent) {
                Ok(())
            } else {
                Err(rustix::io::Errno::SRCH.into())
            }
        };
        // SAFETY: Between fork and exec only async-signal-safe code may run. The closure makes two system calls (prctl, getppid), allocates nothing, takes no lock and touches no memory
        // but its captured integer.
        unsafe { command.pre_exec(prepare) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}

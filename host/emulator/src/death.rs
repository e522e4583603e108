//! Child processes that the kernel kills when the thread that started them ends.
//!
//! This module contains `unsafe` code, because there is no safe way to call
//! `prctl(PR_SET_PDEATHSIG)` between fork and exec. Only the kernel can clean up after an emulator
//! that was killed with SIGKILL.

#![cfg_attr(target_os = "linux", allow(unsafe_code))]

use std::process::Command;

/// Configures `command` so that its child is killed when the calling thread ends. The child must be
/// started on a thread that lives as long as the child may. This does nothing on systems other than
/// Linux.
pub(crate) fn with_this_thread(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::process::CommandExt;
        let parent = rustix::process::getpid();
        let prepare = move || {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            // The parent may have died before the previous line.
            if rustix::process::getppid() == Some(parent) {
                Ok(())
            } else {
                Err(rustix::io::Errno::SRCH.into())
            }
        };
        // SAFETY: Between fork and exec only async-signal-safe code may run. The closure makes two
        // system calls (prctl, getppid). It allocates nothing, takes no lock and accesses no memory
        // except its captured integer.
        unsafe { command.pre_exec(prepare) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}

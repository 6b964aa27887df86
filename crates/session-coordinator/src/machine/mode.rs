//! The safe-mode rule: a session never starts in a mode that allows more than the user could expect.

use std::sync::Arc;

use diag_model::{Detail, ErrorCode, Failure};
use zcode_runtime::model::{HostProfile, Mode, WorkspaceState};

/// The mode used when the workspace has none that may be taken without asking.
const FALLBACK: &str = "build";

/// Chooses the mode of a new session: the workspace's own if it may be chosen implicitly, else `build`.
pub(crate) fn choose(profile: &HostProfile, workspace: &WorkspaceState) -> Result<Arc<str>, Failure> {
    let own = workspace.mode.as_deref().and_then(|id| profile.mode(id)).filter(|mode| mode.implicit);
    own.or_else(|| profile.mode(FALLBACK).filter(|mode| mode.implicit))
        .map(|mode| Arc::clone(&mode.id))
        .ok_or_else(|| {
            Failure::new(ErrorCode::UnsafeMode)
                .cause("the contract names no mode that may be chosen without asking")
        })
}

/// What to make of the mode the host says is in force.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// As asked, or one that allows less.
    Safe(Arc<str>),
    /// Allows more than asked.
    Stronger(Arc<str>),
    /// Not said, or outside the catalogue: nobody can tell what it allows.
    Unknown,
}

/// Compares the mode in force with the one asked for.
pub(crate) fn judge(profile: &HostProfile, asked: &str, said: Option<&str>) -> Verdict {
    let (Some(asked), Some(Mode { id, strength, .. })) =
        (profile.mode(asked), said.and_then(|id| profile.mode(id)))
    else {
        return Verdict::Unknown;
    };
    if *strength > asked.strength { Verdict::Stronger(Arc::clone(id)) } else { Verdict::Safe(Arc::clone(id)) }
}

/// The refusal when the mode is not the safe one.
pub(crate) fn refusal(asked: &str, said: Option<&str>) -> Failure {
    let failure = Failure::new(ErrorCode::UnsafeMode).with(Detail::Expected, asked);
    match said {
        Some(said) => failure.with(Detail::Detected, said),
        None => failure.cause("ZCode did not say which permission mode the session has"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::session::fixture::profile;

    fn chosen(mode: Option<&str>) -> Arc<str> {
        choose(&profile(), &WorkspaceState { mode: mode.map(Arc::from), ..WorkspaceState::default() })
            .unwrap()
    }

    #[test]
    fn the_workspace_mode_is_used_if_it_may_be_implicit_and_build_otherwise() {
        for own in ["plan", "build", "edit"] {
            assert_eq!(&*chosen(Some(own)), own);
        }
        for unsafe_or_unknown in [Some("yolo"), Some("turbo"), None] {
            assert_eq!(&*chosen(unsafe_or_unknown), "build");
        }
    }

    #[test]
    fn a_catalogue_without_an_implicit_mode_refuses() {
        let mut profile = (*profile()).clone();
        profile.modes = profile.modes.iter().filter(|mode| !mode.implicit).cloned().collect();
        let failure = choose(&profile, &WorkspaceState::default()).unwrap_err();
        assert_eq!(failure.code, ErrorCode::UnsafeMode);
    }

    #[test]
    fn stronger_missing_and_unknown_modes_are_told_apart_from_safe_ones() {
        let judge = |said| judge(&profile(), "build", said);
        assert_eq!(judge(Some("build")), Verdict::Safe("build".into()));
        assert_eq!(judge(Some("plan")), Verdict::Safe("plan".into()));
        assert_eq!(judge(Some("yolo")), Verdict::Stronger("yolo".into()));
        assert_eq!(judge(Some("edit")), Verdict::Stronger("edit".into()));
        assert_eq!(judge(Some("turbo")), Verdict::Unknown);
        assert_eq!(judge(None), Verdict::Unknown);
    }
}

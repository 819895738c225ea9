//! Which sections of a job file run at the same time.

use super::settings::Settings;
use super::text::Section;

/// Returns for each section whether it runs at the same time as the section before it.
///
/// In fio a section starts at once unless it waits: for all sections before it with `stonewall`, or for one section
/// with `wait_for`. In the lab sections run in groups, each group after the one before.
///
/// # Errors
/// A sentence about a section that in fio would run at the same time as only some of a group.
pub(super) fn groups<'a>(
    sections: impl Iterator<Item = (&'a Section, &'a Settings)>,
) -> Result<Vec<bool>, String> {
    let mut beside = Vec::new();
    let mut before: Vec<&str> = Vec::new();
    let mut group = Group { names: Vec::new(), waits_for: None };
    for (section, settings) in sections {
        let about = |reason: String| Err(format!("{}, [{}]: {reason}", section.place, section.name));
        let title = settings.name.as_deref().unwrap_or(&section.name);
        let waits_for = settings.waits_for.as_deref();
        let joins = match waits_for {
            _ if settings.waits => false,
            Some(name) if !before.contains(&name) && !group.names.contains(&name) => {
                return about(format!("wait_for={name}: no section before it has this name"));
            }
            // The section waits for the whole group, because that consists of the named section alone.
            Some(name) if group.names == [name] => false,
            waits_for if waits_for == group.waits_for => true,
            Some(name) => {
                return about(format!(
                    "wait_for={name}: in fio it runs at the same time as [{}] but not from the same moment on; here \
                     sections wait for all before them: add stonewall if that is meant",
                    group.names.join("], [")
                ));
            }
            None => {
                return about(format!(
                    "in fio it runs at the same time as the sections before [{}] and as that one; here those that \
                     run together begin together: add stonewall if that is meant",
                    group.names.join("], [")
                ));
            }
        };
        let joins = joins && !beside.is_empty();
        if !joins {
            before.append(&mut group.names);
            group.waits_for = waits_for.filter(|_| !settings.waits);
        }
        group.names.push(title);
        beside.push(joins);
    }
    Ok(beside)
}

/// Sections that begin together.
struct Group<'a> {
    names: Vec<&'a str>,
    /// The section that all sections of the group wait for (`wait_for`).
    waits_for: Option<&'a str>,
}

//! Which sections would run at the same time in fio.

use super::settings::Settings;
use super::text::Section;

/// Refuses sections that fio would run at the same time: cases run one after the other.
///
/// A section waits for all before it with `stonewall`, and for one with `wait_for`; if that is the section just before it,
/// it waits for all, since that one did.
pub fn refuse_at_once<'a>(sections: impl Iterator<Item = (&'a Section, &'a Settings)>) -> Result<(), String> {
    let mut before: Option<(&Section, &Settings)> = None;
    for (section, settings) in sections {
        let title = |section: &'a Section, settings: &'a Settings| -> &'a str {
            settings.name.as_deref().unwrap_or(&section.name)
        };
        match (before, settings.waits_for.as_deref()) {
            (None, None) => {}
            (None, Some(other)) => {
                return Err(format!(
                    "{}, [{}]: wait_for={other}: no section before it has this name",
                    section.place, section.name
                ));
            }
            (Some((other, its)), Some(name)) if title(other, its) == name => {}
            (Some(_), _) if settings.waits => {}
            (Some((other, _)), _) => {
                return Err(format!(
                    "[{}] ({}) and [{}] ({}) run at the same time in fio; here cases run one after the other: add \
                     stonewall to [{}] if that is meant",
                    other.name, other.place, section.name, section.place, section.name
                ));
            }
        }
        before = Some((section, settings));
    }
    Ok(())
}

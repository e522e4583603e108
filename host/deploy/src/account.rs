//! AWS account: the caller's identity, and the number of functions that may run at once.
//!
//! Concurrency that a function reserves is no longer available to the rest of the account, which
//! must retain 100 unreserved. A new account has a limit of 10 or 50 in total. In such an account,
//! *any* reservation fails, and CloudFormation rolls the stack back.

use serde::Serialize;

use super::error::{Error, Result};

/// The number of concurrent executions that AWS requires an account to leave unreserved.
pub(super) const UNRESERVED: u32 = 100;
/// The maximum concurrency that [`Reserve::Automatic`] reserves for each function.
const AUTOMATIC_MOST: u32 = 100;
/// The minimum concurrency that [`Reserve::Automatic`] reserves for each function. A smaller
/// reservation would slow runs down more than it protects them.
const AUTOMATIC_LEAST: u32 = 10;

/// Reserved concurrency of each function of a stack. AWS Lambda takes it from all other functions
/// of the account, and never runs more instances of the function at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reserve {
    /// No reservation. The functions share the unreserved concurrency with all other functions of
    /// the account.
    #[default]
    Nothing,
    /// Up to 100 concurrent executions per function. If the account has fewer than 10 per function
    /// available, nothing is reserved.
    Automatic,
    /// The given number of concurrent executions per function. If the account does not have them
    /// available, the deployment fails.
    Exactly(u32),
}

impl std::str::FromStr for Reserve {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Automatic),
            "none" | "0" => Ok(Self::Nothing),
            _ => text
                .parse()
                .map(Self::Exactly)
                .map_err(|_| Error::Choice(format!("`{text}` cannot be reserved: auto, none or a number"))),
        }
    }
}

/// Identity and concurrency limits of an AWS account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Account {
    /// AWS account id, twelve digits.
    pub id: String,
    /// ARN of the caller that the credentials identify.
    pub caller: String,
    /// Maximum number of concurrent executions of all functions of the account.
    pub concurrency: u32,
    /// Concurrency of the account that no function has reserved.
    pub unreserved: u32,
    /// Concurrency that the functions of the deployed stack have already reserved.
    pub own: u32,
}

impl Account {
    /// Returns the concurrency to reserve for each function of a stack with the given number of
    /// `functions`. A result of 0 means that nothing is reserved.
    ///
    /// # Errors
    /// Returns an error if `wish` is [`Reserve::Exactly`] and that concurrency is not available.
    pub fn reservation(&self, functions: u32, wish: Reserve) -> Result<u32> {
        // The same update releases the concurrency that the stack has reserved now.
        let room = self.unreserved.saturating_add(self.own).saturating_sub(UNRESERVED);
        let each = room / functions.max(1);
        match wish {
            Reserve::Nothing => Ok(0),
            Reserve::Automatic if each < AUTOMATIC_LEAST => Ok(0),
            Reserve::Automatic => Ok(each.min(AUTOMATIC_MOST)),
            Reserve::Exactly(number) if number <= each => Ok(number),
            Reserve::Exactly(number) => Err(Error::Choice(format!(
                "{number} for each of {functions} functions cannot be reserved: the account may run {} at once, {} of them are unreserved, and {UNRESERVED} must stay unreserved; \
                 the maximum is {} per function; ask AWS for a higher limit (Service Quotas, Lambda, concurrent executions), or leave --reserve out",
                self.concurrency,
                self.unreserved.saturating_add(self.own),
                each
            ))),
        }
    }
}

impl Account {
    /// Describes the reservation of each function to the user. If it is smaller than `wish` asks
    /// for, the text gives the reason.
    #[must_use]
    pub fn told(&self, functions: u32, wish: Reserve, reserved: Option<u32>) -> String {
        let Self { concurrency, .. } = self;
        let free = self.unreserved.saturating_add(self.own);
        match (wish, reserved) {
            (Reserve::Automatic, Some(each)) if each < AUTOMATIC_MOST => format!(
                "{each} for each of {functions} functions, and no more of each; auto asks for {AUTOMATIC_MOST}, but of the account's {concurrency}, {free} are unreserved and {UNRESERVED} must stay unreserved"
            ),
            (Reserve::Automatic, None) => format!(
                "nothing reserved: auto asks for {AUTOMATIC_LEAST} to {AUTOMATIC_MOST} a function, but of the account's {concurrency}, {free} are unreserved and {UNRESERVED} must stay unreserved"
            ),
            (_, Some(each)) => {
                format!(
                    "{each} for each of {functions} functions, and no more of each, of the account's {concurrency}"
                )
            }
            (_, None) => format!("nothing reserved; the account may run {concurrency} functions at once"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn account(concurrency: u32, unreserved: u32, own: u32) -> Account {
        Account { id: "1".to_owned(), caller: "me".to_owned(), concurrency, unreserved, own }
    }

    #[test]
    fn new_accounts_reserve_nothing() {
        for limit in [0, 10, 50, 100, 119] {
            assert_eq!(account(limit, limit, 0).reservation(2, Reserve::Automatic).unwrap(), 0, "{limit}");
            let said = account(limit, limit, 0).reservation(1, Reserve::Exactly(20)).unwrap_err().to_string();
            assert!(said.contains("cannot be reserved") && said.contains("Service Quotas"), "{said}");
        }
    }

    #[test]
    fn what_is_reserved_leaves_the_account_its_hundred() {
        for unreserved in 0..1500 {
            for functions in 1..=4 {
                let found = account(1500, unreserved, 0).reservation(functions, Reserve::Automatic).unwrap();
                assert!(found == 0 || (AUTOMATIC_LEAST..=AUTOMATIC_MOST).contains(&found));
                assert!(found == 0 || found * functions + UNRESERVED <= unreserved);
            }
        }
        let account = account(1000, 500, 0);
        assert_eq!(account.reservation(2, Reserve::Exactly(200)).unwrap(), 200);
        assert!(account.reservation(2, Reserve::Exactly(201)).is_err());
        assert_eq!(account.reservation(2, Reserve::Nothing).unwrap(), 0);
    }

    #[test]
    fn a_second_deployment_reserves_the_same_as_the_first() {
        let first = account(400, 400, 0).reservation(2, Reserve::Automatic).unwrap();
        assert_eq!(first, 100);
        let again = account(400, 400 - 2 * first, 2 * first).reservation(2, Reserve::Automatic).unwrap();
        assert_eq!(again, first);
    }

    #[test]
    fn a_first_deployment_took_200_of_the_accounts_concurrency() {
        assert_eq!(account(1000, 1000, 0).reservation(2, Reserve::default()).unwrap(), 0);
    }

    #[test]
    fn a_reservation_that_was_cut_says_by_what() {
        let told = |account: Account, wish| {
            let each = account.reservation(2, wish).unwrap();
            account.told(2, wish, Some(each).filter(|each| *each > 0))
        };
        let said = told(account(250, 250, 0), Reserve::Automatic);
        assert!(said.contains("75 for each of 2 functions") && said.contains("auto asks for 100"), "{said}");
        assert!(
            said.contains("of the account's 250, 250 are unreserved and 100 must stay unreserved"),
            "{said}"
        );
        let said = told(account(10, 10, 0), Reserve::Automatic);
        assert!(said.contains("nothing reserved: auto asks for 10 to 100"), "{said}");
        assert!(!told(account(1000, 1000, 0), Reserve::Automatic).contains("asks"));
        assert!(told(account(1000, 1000, 0), Reserve::Nothing).contains("may run 1000 functions"));
        assert!(told(account(1000, 1000, 0), Reserve::Exactly(7)).contains("7 for each of 2"));
    }

    #[test]
    fn wishes_are_read() {
        assert_eq!("auto".parse::<Reserve>().unwrap(), Reserve::Automatic);
        assert_eq!("none".parse::<Reserve>().unwrap(), Reserve::Nothing);
        assert_eq!("0".parse::<Reserve>().unwrap(), Reserve::Nothing);
        assert_eq!("7".parse::<Reserve>().unwrap(), Reserve::Exactly(7));
        assert!("-7".parse::<Reserve>().is_err());
    }
}

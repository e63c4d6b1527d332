export const ROLES = ['read', 'act'] as const

/** `read` sees every page; `act` also changes things. */
export type Role = (typeof ROLES)[number]

/** The account that a request of the console is made by. */
export interface Operator {
  readonly name: string
  readonly role: Role
}

/** Names appear in URLs and in lines of commands. */
export const OPERATOR_NAME = /^[a-z0-9][a-z0-9._@-]{0,62}$/

/** NIST SP 800-63B asks for 15 characters of a password that is the only factor. */
export const SHORTEST_PASSWORD = 15
/** Hashing a longer one would cost more than it protects. */
export const LONGEST_PASSWORD = 256

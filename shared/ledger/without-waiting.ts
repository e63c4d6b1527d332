/**
 * A common table expression for a statement that is a transaction of its own: its commit does not wait for the disk. Only for
 * what a crash of the server may lose, such as a lease: everything committed later with waiting is lost before it or not at
 * all. The statement must read from `committed_early`, or PostgreSQL leaves it out.
 */
export const COMMITTED_EARLY = `committed_early AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))`

/** How long anything may take that is certain to happen: only a machine that stands still takes longer. */
export const PATIENCE_MS = 60_000

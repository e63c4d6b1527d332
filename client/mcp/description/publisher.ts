/**
 * Decisions of the publisher of this package. The registry of MCP servers accepts a name only from the owner of its
 * domain, so that the example's has to be replaced before the first publication.
 */
export const PUBLISHER = {
  name: 'farebox',
  /** The name in the registry: a domain in reverse, and the server. `mcpName` of package.json repeats it. */
  serverName: 'example.farebox/farebox',
  /**
   * Whether the package is in the npm registry under its name. Until it is, `npx farebox` would run what someone else
   * publishes, and the install lines start the installed command instead.
   */
  isInNpm: false,
} as const

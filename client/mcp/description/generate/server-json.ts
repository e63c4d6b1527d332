import type { ServerDescription } from './server-description.ts'

/** The version of the format; `test/unit/mcp/description` holds what it requires of the fields that are used here. */
const SCHEMA = 'https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json'

/** Returns `server.json`, by which the registry of MCP servers lists the local server and the hosted one. */
export function serverJson({ publisher, title, summary, packageName, version, settings, folders }: ServerDescription) {
  return {
    $schema: SCHEMA,
    name: publisher.serverName,
    title,
    description: summary,
    version,
    packages: [
      {
        registryType: 'npm',
        registryBaseUrl: 'https://registry.npmjs.org',
        identifier: packageName,
        version,
        runtimeHint: 'npx',
        transport: { type: 'stdio' },
        packageArguments: [
          { type: 'positional', value: 'mcp' },
          {
            type: 'positional',
            valueHint: folders.name,
            description: folders.description,
            placeholder: folders.example,
            format: 'filepath',
            isRepeated: true,
          },
        ],
        environmentVariables: settings.map(({ variable, description, kind, isRequired, isSecret, example }) => ({
          name: variable,
          description,
          format: kind === 'text' ? 'string' : 'filepath',
          isRequired,
          isSecret,
          placeholder: example,
        })),
      },
    ],
    // Anyone may run a farebox service: its host is a variable.
    remotes: [
      {
        type: 'streamable-http',
        url: 'https://{host}/mcp',
        variables: {
          host: {
            description: 'The farebox service. The client pays each call with x402 in _meta.',
            isRequired: true,
            placeholder: 'farebox.example',
          },
        },
      },
    ],
  }
}

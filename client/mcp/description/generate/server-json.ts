import type { FOLDERS_ARGUMENT, ServerSetting } from '../settings.ts'
import type { ToolTexts } from '../tool-texts.ts'

const reference = (setting: ServerSetting) => `\${user_config.${optionName(setting)}}`

const OPTION_TYPES = { text: 'string', file: 'file', folder: 'directory' } as const

/** All that is said about the server in any place. */
export interface ServerDescription {
  readonly publisher: { readonly name: string; readonly serverName: string; readonly isInNpm: boolean }
  readonly packageName: string
  readonly version: string
  readonly license: string
  readonly keywords: readonly string[]
  /** The range of Node versions. */
  readonly node: string
  readonly title: string
  /** At most 100 characters. */
  readonly summary: string
  /** When an agent should think of it. */
  readonly occasion: string
  /** What the server tells its clients at the start. */
  readonly instructions: string
  readonly tools: readonly ToolTexts[]
  readonly settings: readonly ServerSetting[]
  readonly folders: typeof FOLDERS_ARGUMENT
}

/** The version of the format; `test/contract/mcp/description.test.ts` holds what it requires of the fields that are used here. */
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
        environmentVariables: settings.map(({ variable, description, kind, isRequired, example }) => ({
          name: variable,
          description,
          format: kind === 'text' ? 'string' : 'filepath',
          isRequired,
          // The key is in a file, of which this is the name.
          isSecret: false,
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

/** Returns `manifest.json` of the bundle that desktop clients install with a click. */
export function bundleManifest(description: ServerDescription) {
  const { publisher, packageName, version, title, summary, license, keywords, node, tools, folders } = description
  const entryPoint = `node_modules/${packageName}/bin/farebox.js`
  return {
    manifest_version: '0.3',
    name: packageName,
    display_name: title,
    version,
    description: summary,
    long_description: description.instructions,
    author: { name: publisher.name },
    license,
    keywords,
    server: {
      type: 'node',
      entry_point: entryPoint,
      mcp_config: {
        command: 'node',
        args: [`\${__dirname}/${entryPoint}`, 'mcp', `\${user_config.${folders.name}}`],
        env: Object.fromEntries(description.settings.map((setting) => [setting.variable, reference(setting)])),
      },
    },
    tools: tools.map(({ name, description }) => ({ name, description })),
    compatibility: { platforms: ['darwin', 'linux'], runtimes: { node } },
    user_config: {
      ...Object.fromEntries(description.settings.map((setting) => [optionName(setting), userOption(setting)])),
      [folders.name]: {
        type: 'directory',
        title: folders.title,
        description: folders.description,
        multiple: true,
        required: false,
        default: [],
      },
    },
  }
}

/** `FAREBOX_KEY_FILE` is `key_file`. */
function optionName({ variable }: ServerSetting): string {
  return variable.replace(/^FAREBOX_/, '').toLowerCase()
}

function userOption({ kind, title, description, isRequired }: ServerSetting) {
  return {
    type: OPTION_TYPES[kind],
    title,
    description,
    required: isRequired,
    // Without a default the name of the option itself would become the variable's value.
    ...(!isRequired && { default: '' }),
  }
}

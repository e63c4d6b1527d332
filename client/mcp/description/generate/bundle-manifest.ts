import type { ServerSetting } from '../settings.ts'
import type { ServerDescription } from './server-description.ts'

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

const reference = (setting: ServerSetting) => `\${user_config.${optionName(setting)}}`

/** `FAREBOX_KEY_FILE` is `key_file`. */
function optionName({ variable }: ServerSetting): string {
  return variable.replace(/^FAREBOX_/, '').toLowerCase()
}

const OPTION_TYPES = { text: 'string', file: 'file', folder: 'directory' } as const

function userOption({ kind, title, description, isRequired, isSecret }: ServerSetting) {
  return {
    type: OPTION_TYPES[kind],
    title,
    description,
    required: isRequired,
    // Without a default the name of the option itself would become the variable's value.
    ...(!isRequired && { default: '' }),
    ...(isSecret && { sensitive: true }),
  }
}

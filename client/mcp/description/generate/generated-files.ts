import { readFileSync } from 'node:fs'
import { PUBLISHER } from '../publisher.ts'
import { FOLDERS_ARGUMENT, SERVER_SETTINGS } from '../settings.ts'
import { INSTRUCTIONS, SERVER, TOOL_TEXTS } from '../tool-texts.ts'
import { bundleManifest, type ServerDescription, serverJson } from './server-json.ts'

type Launch = Pick<ServerDescription, 'publisher' | 'packageName' | 'version' | 'settings' | 'folders'>

/** The folder of the package. */
export const PACKAGE = new URL('../../../', import.meta.url)

/** Returns what is said about the server, from its texts and the package's own description. */
export function describeServer(): ServerDescription {
  const { name, version, license, keywords, engines } = JSON.parse(readPackageFile('package.json')) as PackageJson
  return {
    publisher: PUBLISHER,
    packageName: name,
    version,
    license,
    keywords,
    node: engines.node,
    title: SERVER.title,
    summary: SERVER.description,
    occasion: OCCASION,
    instructions: INSTRUCTIONS,
    tools: Object.values(TOOL_TEXTS),
    settings: SERVER_SETTINGS,
    folders: FOLDERS_ARGUMENT,
  }
}

const OCCASION =
  'Makes paid calls of AI models through the MCP server farebox: text, images, speech and transcripts of recordings, paid per ' +
  'request in USDC from the wallet of the person, within limits that only they change. Use it to transcribe a recording, a ' +
  'folder or a URL, to ask another model, to make an image or speech, and to show or verify what was paid.'

interface PackageJson {
  readonly name: string
  readonly version: string
  readonly license: string
  readonly keywords: readonly string[]
  readonly engines: { readonly node: string }
}

/** Returns the texts of all generated files, by their paths in the package. */
export function generatedFiles(description: ServerDescription): ReadonlyMap<string, string> {
  return new Map([
    ['server.json', jsonText(serverJson(description))],
    ['mcp/bundle/manifest.json', jsonText(bundleManifest(description))],
    [`skills/${description.packageName}/SKILL.md`, skill(description)],
    ['README.md', withSection(readPackageFile('README.md'), 'install lines', installLines(description))],
  ])
}

function jsonText(value: object): string {
  return `${JSON.stringify(value, null, 2)}\n`
}

export function readPackageFile(path: string): string {
  return readFileSync(new URL(path, PACKAGE), 'utf8')
}

/** Returns `SKILL.md`, which teaches an agent when and how to use the server. */
function skill({ packageName, occasion, license, instructions, tools, settings }: ServerDescription): string {
  const required = settings.filter(({ isRequired }) => isRequired).map(({ variable }) => `\`${variable}\``)
  return `---
name: ${packageName}
description: ${JSON.stringify(occasion)}
license: ${license}
---

# ${packageName}

${instructions.replaceAll('\n', '\n\n')}

## Tools

| tool | pays | does |
| ---- | ---- | ---- |
${tools.map(({ name, annotations, description }) => `| \`${name}\` | ${annotations.readOnlyHint === true ? 'no' : 'yes'} | ${description} |`).join('\n')}

## A paid call

1. Ask \`quote\` for the price when the person wants to know it, or when the call is large.
2. Call the tool with a \`request_id\` of your own: a name for this piece of work, such as \`summary-of-minutes-1\`.
3. If the connection is lost or the answer says that it is not known whether the call was charged, repeat it unchanged.
4. Name the charge and the receipt id to the person.

## Errors

\`structuredContent.error\` of a failed call has \`code\`, \`message\`, \`advice\` and \`money\`: \`none\` (nothing was charged),
\`unknown\` (repeat the call unchanged to find out) or \`charged\` (repeat it unchanged, it is not charged again).

| \`code\` | do |
| ------ | -- |
| \`budget_exceeded\`, \`price_above_limit\` | ask the person; they run \`farebox limits\` in a terminal |
| \`confirmation_required\`, \`confirmation_declined\` | show the person the message, and do not repeat the call by yourself |
| \`request_id_conflict\` | use another \`request_id\` for another call |
| \`path_not_allowed\` | the person starts the server with the folder |
| \`no_wallet\`, \`no_service\` | the person sets ${required.join(' and ')} where the server is started |
| \`insufficient_funds\`, \`not_approved\` | the person adds USDC, or runs \`farebox approve\` |

## Start the server

\`farebox mcp FOLDER…\`, with ${required.join(' and ')} in its environment. The README of the package has the lines for the usual
clients. \`farebox doctor\` finds what is missing.
`
}

/** Returns the Markdown that shows how the usual clients start the server. */
export function installLines(description: Launch): string {
  const { command, args, env } = launch(description)
  const variables = Object.entries(env).map(([name, value]) => `--env ${name}=${value}`)
  const line = [command, ...args].join(' ')
  const server = { command, args, env }
  return [
    block('Claude Code', 'sh', [
      // The client takes everything behind --env up to the next option as variables.
      [`claude mcp add --scope user`, ...variables, `--transport stdio farebox -- ${line}`],
    ]),
    block('Codex', 'sh', [[`codex mcp add farebox`, ...variables, `-- ${line}`]]),
    block('Gemini CLI', 'sh', [[`gemini mcp add --scope user`, ...variables, `farebox ${line}`]]),
    block('VS Code', 'sh', [[`code --add-mcp '${JSON.stringify({ name: 'farebox', type: 'stdio', ...server })}'`]]),
    'Claude Desktop (`claude_desktop_config.json`), Cursor (`~/.cursor/mcp.json`), Windsurf',
    '(`~/.codeium/windsurf/mcp_config.json`); Zed takes the same under `context_servers` of its `settings.json`:',
    '',
    fence('json', withShortLists(JSON.stringify({ mcpServers: { farebox: server } }, null, 2))),
  ].join('\n')
}

/** Returns what a client starts, with the example of each setting that it needs. */
export function launch({ publisher, packageName, version, settings, folders }: Launch) {
  const required = settings.filter(({ isRequired }) => isRequired)
  const [command, ...before] = publisher.isInNpm ? ['npx', '--yes', `${packageName}@${version}`] : [packageName]
  return {
    command: command ?? packageName,
    args: [...before, 'mcp', folders.example],
    env: Object.fromEntries(required.map(({ variable, example }) => [variable, example])),
  }
}

function block(client: string, language: string, commands: readonly (readonly string[])[]): string {
  return `${client}:\n\n${fence(language, commands.map((words) => words.join(' \\\n  ')).join('\n'))}\n`
}

/** Writes lists on one line, as the formatter of this repository does. */
function withShortLists(json: string): string {
  return json.replace(/\[\s+([^\]]*?)\s+\]/g, (_, items: string) => `[${items.replace(/\n\s*/g, ' ')}]`)
}

function fence(language: string, text: string): string {
  return `\`\`\`${language}\n${text}\n\`\`\``
}

/** Returns a Markdown page with another text in its generated section of this name. */
function withSection(page: string, name: string, text: string): string {
  const [begin, end] = [`<!-- ${name}: generated by npm run generate -->`, `<!-- end of ${name} -->`]
  const [from, to] = [page.indexOf(begin), page.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`The page has no section between ${begin} and ${end}.`)
  return `${page.slice(0, from + begin.length)}\n\n${text}\n\n${page.slice(to)}`
}

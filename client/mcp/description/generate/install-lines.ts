import type { ServerDescription } from './server-description.ts'

type Launch = Pick<ServerDescription, 'publisher' | 'packageName' | 'version' | 'settings' | 'folders'>

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

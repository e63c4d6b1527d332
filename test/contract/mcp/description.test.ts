import { execFile } from 'node:child_process'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { createProgram } from '../../../client/command/program.ts'
import {
  describeServer,
  generatedFiles,
  installLines,
  launch,
  readPackageFile,
} from '../../../client/mcp/description/generate/generated-files.ts'
import { serverJson } from '../../../client/mcp/description/generate/server-json.ts'
import { TOOLS } from '../../../client/mcp/tools/tools.ts'
import { serverJsonSchema } from '../../support/mcp/server-json-schema.ts'

const description = describeServer()
const packageJson = JSON.parse(readPackageFile('package.json'))

test('the described tools are the registered ones', () => {
  expect(description.tools.map(({ name }) => name)).toEqual(TOOLS.map(({ name }) => name))
  for (const tool of TOOLS)
    expect(description.tools.find(({ name }) => name === tool.name)).toMatchObject({
      title: tool.title,
      description: tool.description,
      annotations: tool.annotations,
    })
})

test('the described arguments and variables are those of farebox mcp', () => {
  const program = createProgram({ stdout: process.stdout, stderr: process.stderr } as never, () => undefined)
  const mcp = program.commands.find((command) => command.name() === 'mcp')
  expect(mcp?.registeredArguments.map(({ variadic, required }) => ({ variadic, required }))).toEqual([
    { variadic: true, required: false },
  ])
  const help = program.helpInformation() + String(mcp?.helpInformation())
  for (const { variable } of description.settings) expect(help).toContain(variable)
})

describe('server.json', () => {
  test('has the form that the registry of MCP servers publishes', () => {
    expect(serverJsonSchema.parse(serverJson(description))).toEqual(serverJson(description))
  })

  test('names the npm package, which names the server: that is how the registry knows that both have one owner', () => {
    const { name, version, packages } = serverJson(description)
    expect(packageJson).toMatchObject({ mcpName: name, name: packages[0]?.identifier, version })
  })
})

test('SKILL.md has the front matter that agents read, and names every tool', () => {
  const text = generatedFiles(description).get('skills/farebox/SKILL.md') ?? ''
  const [, front = '', body = ''] = text.split(/^---$/m)
  const { name, description: occasion } = parse(front)
  expect(name).toBe('farebox')
  expect(occasion).toContain('MCP server')
  expect(occasion.length).toBeLessThanOrEqual(1024)
  for (const tool of TOOLS) expect(body).toContain(`\`${tool.name}\``)
})

describe('the install lines', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-lines-'))
    // Stand-ins for the clients' programs write down their arguments.
    for (const client of ['claude', 'codex', 'gemini', 'code']) {
      await writeFile(join(folder, client), '#!/bin/sh\nprintf \'%s\\n\' "${0##*/}" "$@"\n')
      await chmod(join(folder, client), 0o755)
    }
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  /** Runs the line of a client in a shell, and returns the arguments that the client gets. */
  async function argumentsOf(client: string): Promise<string[]> {
    const blocks = [...installLines(description).matchAll(/```sh\n([^]*?)```/g)].map(([, text = '']) => text)
    const [block = ''] = blocks.filter((text) => text.startsWith(`${client} `))
    const { stdout } = await promisify(execFile)('sh', ['-ec', block], { env: { PATH: `${folder}:/bin:/usr/bin` } })
    return stdout.trimEnd().split('\n')
  }

  test.each(['claude', 'codex', 'gemini'])('pass %s the command, its arguments and its variables', async (client) => {
    const { command, args, env } = launch(description)
    const words = await argumentsOf(client)
    expect(words.slice(0, 3)).toEqual([client, 'mcp', 'add'])
    expect(words.slice(-1 - args.length)).toEqual([command, ...args])
    for (const [name, value] of Object.entries(env)) expect(words[words.indexOf(`${name}=${value}`) - 1]).toBe('--env')
  })

  test('pass VS Code the command, its arguments and its variables', async () => {
    const [, option, server = ''] = await argumentsOf('code')
    expect(option).toBe('--add-mcp')
    expect(JSON.parse(server)).toEqual({ name: 'farebox', type: 'stdio', ...launch(description) })
  })

  test('start the installed command until the package is in the npm registry, and then this version of it', () => {
    expect(launch({ ...description, publisher: { ...description.publisher, isInNpm: false } })).toMatchObject({
      command: 'farebox',
    })
    const published = launch({ ...description, publisher: { ...description.publisher, isInNpm: true } })
    expect(published).toMatchObject({
      command: 'npx',
      args: ['--yes', `farebox@${packageJson.version}`, 'mcp', '/home/you/recordings'],
    })
  })
})

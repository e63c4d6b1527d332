import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { bashCompletion } from '../../../../client/command/completion/bash.ts'
import { completable } from '../../../../client/command/completion/completable.ts'
import { fishCompletion } from '../../../../client/command/completion/fish.ts'
import { zshCompletion } from '../../../../client/command/completion/zsh.ts'
import { createProgram } from '../../../../client/command/program.ts'
import { havePrograms } from '../../../support/processes/optional-program.ts'
import { runProgram } from '../../../support/processes/run-program.ts'
import { until } from '../../../support/until.ts'
import { scriptedIo } from '../../../unit/client/command/support/scripted-io.ts'

const program = completable(createProgram(scriptedIo(), () => undefined))
const commands = program.commands.map(({ name }) => name)

const PROMPT = 'ready to type> '

let folder: string
let script: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'farebox-completion-'))
  script = join(folder, 'script')
})
afterAll(() => rm(folder, { recursive: true }))

async function completeInFish(line: string): Promise<string[]> {
  await writeFile(script, fishCompletion(program))
  const answer = await runProgram('fish', ['--no-config', '-c', `source ${script}; complete -C '${line}'`])
  return answer
    .toString()
    .split('\n')
    .filter(Boolean)
    .map((row) => row.split('\t')[0] ?? '')
}

describe('completion in bash', () => {
  async function complete(...words: readonly string[]): Promise<string[]> {
    await writeFile(script, bashCompletion(program))
    const typed = `source ${script}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _farebox; printf '%s\\n' "\${COMPREPLY[@]}"`
    const answer = await runProgram('bash', ['-c', typed, 'bash', 'farebox', ...words])
    return answer.toString().split('\n').filter(Boolean)
  }

  it('offers all commands, then those that begin like the word', async () => {
    expect(await complete('')).toEqual(commands)
    expect(await complete('tr')).toEqual(['transcribe'])
  })

  it.each(program.commands)('offers all flags of $name', async ({ name, options }) => {
    expect((await complete(name, '--')).toSorted()).toEqual(options.map(({ long }) => long).toSorted())
  })

  it('offers the values of a flag, and files for a flag that names one', async () => {
    expect(await complete('transcribe', '--style', '')).toEqual(['netflix', 'bbc', 'plain'])
    expect(await complete('transcribe', '--out', 'a')).toEqual([])
    expect(await complete('transcribe', 'a')).toEqual([])
    expect(await complete('completion', 'f')).toEqual(['fish'])
  })
})

describe.skipIf(!havePrograms('fish'))('completion in fish', () => {
  it('offers all commands, the flags of one and the values of a flag', async () => {
    expect((await completeInFish('farebox ')).toSorted()).toEqual(commands.toSorted())
    const { options } = program.commands.find(({ name }) => name === 'transcribe') ?? { options: [] }
    const flags = (await completeInFish('farebox transcribe --')).toSorted()
    expect(flags).toEqual(expect.arrayContaining(options.map(({ long }) => long)))
    expect((await completeInFish('farebox transcribe --style ')).toSorted()).toEqual(['bbc', 'netflix', 'plain'])
  })
})

describe.skipIf(!havePrograms('zsh'))('completion in zsh', () => {
  it('offers the commands, the flags of one and the values of a flag', async () => {
    await writeFile(script, zshCompletion(program))
    const environment = { PATH: process.env['PATH'] ?? '', TERM: 'dumb', HOME: folder, PS1: PROMPT }
    const shell = spawn('script', ['--quiet', '--flush', '--command', 'zsh -f -i', '/dev/null'], { env: environment })
    onTestFinished(() => void shell.kill())
    let shown = ''
    shell.stdout.setEncoding('utf8').on('data', (text: string) => (shown += text))
    const ended = once(shell, 'close')
    const typeUntil = async (keys: string, text: string) => {
      shown = ''
      shell.stdin.write(keys)
      await until(() => shown.includes(text))
    }
    // A shell drops what is typed before it shows its prompt.
    await until(() => shown.includes(PROMPT))
    // The typed line itself does not contain the word that is awaited.
    await typeUntil(`autoload -Uz compinit; compinit -u -D; source ${script}; print REA''DY\n`, 'READY')
    await until(() => shown.slice(shown.indexOf('READY')).includes(PROMPT))
    await typeUntil('farebox tran\t', 'transcribe')
    await typeUntil('--sty\t', '--style')
    await typeUntil('b\t', 'bbc')
    shell.kill()
    await ended
  })
})

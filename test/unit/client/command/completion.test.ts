import { describe, expect, it } from 'vitest'
import { bashCompletion } from '../../../../client/command/completion/bash.ts'
import { type CompletableProgram, completable } from '../../../../client/command/completion/completable.ts'
import { fishCompletion } from '../../../../client/command/completion/fish.ts'
import { zshCompletion } from '../../../../client/command/completion/zsh.ts'
import { createProgram } from '../../../../client/command/program.ts'
import { runScripted, scriptedIo } from './support/scripted-io.ts'

const program = createProgram(scriptedIo(), () => undefined)

describe('what a shell completes', () => {
  it('is every command of the program with every flag, its own and the common ones', () => {
    const { commands } = completable(program)
    const names = program.commands.map((command) => command.name())
    expect(commands.map(({ name }) => name)).toEqual([...names, 'help'])
    const common = program.options.flatMap(({ long }) => (long && long !== '--version' ? [long] : []))
    for (const command of program.commands) {
      const own = command.options.flatMap(({ long }) => (long ? [long] : []))
      const longs = commands.find(({ name }) => name === command.name())?.options.map(({ long }) => long)
      expect(longs?.toSorted()).toEqual([...own, ...common, '--help'].toSorted())
    }
  })

  it('follows a command and a flag that are added', () => {
    const changed = createProgram(scriptedIo(), () => undefined)
    changed.command('brew').description("tea's ready: [now]").option('-s, --sugar <lumps>', 'how sweet')
    for (const render of [bashCompletion, zshCompletion, fishCompletion]) {
      const script = render(completable(changed))
      expect(script).toContain('brew')
      expect(script).toMatch(render === fishCompletion ? / -l sugar -s s -r / : /--sugar/)
      expect(render(completable(program))).not.toContain('brew')
    }
  })

  it('names the choices of an option and of an argument', () => {
    const { commands } = completable(program)
    const byName = Object.fromEntries(commands.map((command) => [command.name, command]))
    expect(byName['completion']?.choices).toEqual(['bash', 'zsh', 'fish'])
    const style = byName['transcribe']?.options.find(({ long }) => long === '--style')
    expect(style).toMatchObject({ takesValue: true, choices: ['netflix', 'bbc', 'plain'] })
  })

  it.each<[string, (program: CompletableProgram) => string]>([
    ['bash', bashCompletion],
    ['zsh', zshCompletion],
    ['fish', fishCompletion],
  ])('farebox completion %s prints the script and nothing else', async (shell, render) => {
    const { code, out, err } = await runScripted(['completion', shell])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toBe(render(completable(program)))
  })
})

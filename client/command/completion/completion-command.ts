import { Argument, type Command } from 'commander'
import { examples } from '../examples.ts'
import type { RegisterCommand } from '../run.ts'
import { bashCompletion } from './bash.ts'
import { completable } from './completable.ts'
import { fishCompletion } from './fish.ts'
import { zshCompletion } from './zsh.ts'

const SCRIPTS = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion } as const

/** Adds `farebox completion`. Its scripts contain the commands and flags of the program that prints them. */
export const registerCompletion: RegisterCommand = (program: Command, run) => {
  program
    .command('completion')
    .description('Prints the script that completes commands and flags in a shell.')
    .addArgument(new Argument('<shell>', 'the shell').choices(Object.keys(SCRIPTS)))
    .addHelpText(
      'after',
      examples([
        ['eval "$(farebox completion bash)"', 'in ~/.bashrc'],
        ['eval "$(farebox completion zsh)"', 'in ~/.zshrc, after compinit'],
        ['farebox completion fish > ~/.config/fish/completions/farebox.fish', 'once'],
      ]),
    )
    .action(
      run(async ({ output }, shell: keyof typeof SCRIPTS) => {
        await output.content(SCRIPTS[shell](completable(program)))
        return undefined
      }),
    )
}

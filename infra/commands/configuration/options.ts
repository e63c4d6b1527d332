import type { Command } from 'commander'
import { z } from 'zod'
import { addCommon, checkedFlags, readCommon, reason, type Settings } from '../command-line.ts'

export type ConfigurationOptions = ReturnType<typeof readOptions>

export const NEW_HOSTS = [
  '--new-hosts',
  'lets keys go to hosts that they did not go to before, which are listed',
] as const

const optionsSchema = z.object({
  reason: reason.optional(),
  replace: z.boolean().default(false),
  newHosts: z.boolean().default(false),
})

/** Reads options and settings, and an argument: a file, or for `show` the number of a publication. Throws `UsageError`. */
export function readOptions(flags: unknown, settings: Settings, given: string | undefined) {
  const options = checkedFlags(optionsSchema, flags)
  return {
    ...readCommon(flags, settings),
    given,
    reason: options.reason,
    replaces: options.replace,
    /** Whether keys may go where they did not go before. */
    confirmsDestinations: options.newHosts,
  }
}

/** Adds what all commands of a configuration share. */
export function addTexts(command: Command, description: string): Command {
  return addCommon(command)
    .description(`${description} All processes apply a publication within two seconds.`)
    .addHelpText(
      'after',
      `
Reads DATABASE_URL. Exit code: 0 when done, 1 when the content is not valid or somebody else was first, 2 for wrong
arguments or a database that cannot be reached.`,
    )
}

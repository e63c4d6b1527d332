import { dirname, join, resolve } from 'node:path'
import { homeDirectory } from '../../journal/home-directory.ts'

const SUFFIX = '-limits'
const PLAIN = /^[\w./-]+$/

/** Returns the limits file that belongs to a journal: in a folder of its own, in which nothing else is written. */
export function limitsPath(home: string): string {
  return join(`${resolve(home)}${SUFFIX}`, 'limits.json')
}

/** Returns what a person runs in a terminal to change a limits file, also where it is not the one of the default home. */
export function limitsCommand(path: string, change: string): string {
  const home = dirname(path).slice(0, -SUFFIX.length)
  const option = home === resolve(homeDirectory({})) ? '' : ` --home ${quoted(home)}`
  return `farebox limits ${change}${option}`
}

function quoted(text: string): string {
  return PLAIN.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`
}

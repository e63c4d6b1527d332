import { readdirSync, readFileSync } from 'node:fs'

/** Linux reports processor time in hundredths of a second on every machine. */
const MS_PER_TICK = 10

interface Stat {
  readonly parent: number
  /** Processor time of the process and of its exited children. */
  readonly cpuMs: number
}

/** Reads each process's processor time with that of its descendants, in milliseconds. Linux only. */
export function readCpuMs<Name extends string>(pids: Readonly<Record<Name, number>>): Record<Name, number> {
  const stats = new Map(
    readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map((name) => [Number(name), readStat(Number(name))] as const),
  )
  const total = (pid: number): number => {
    const children = [...stats].filter(([, stat]) => stat?.parent === pid)
    return (stats.get(pid)?.cpuMs ?? 0) + children.reduce((sum, [child]) => sum + total(child), 0)
  }
  return mapValues(pids, total)
}

/** Reads a process's resident memory in bytes; 0 when it has exited. */
export function readRssBytes(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readOrEmpty(`/proc/${pid}/status`))?.[1]
  return Number(kilobytes ?? 0) * 1024
}

export function mapValues<Name extends string, In, Out>(
  record: Readonly<Record<Name, In>>,
  change: (value: In, name: Name) => Out,
): Record<Name, Out> {
  return Object.fromEntries(
    Object.entries<In>(record).map(([name, value]) => [name, change(value, name as Name)]),
  ) as Record<Name, Out>
}

function readStat(pid: number): Stat | undefined {
  // The name in parentheses may contain spaces and parentheses.
  const [, after] = /^.*\) (.*)$/s.exec(readOrEmpty(`/proc/${pid}/stat`)) ?? []
  if (after === undefined) return undefined
  const fields = after.split(' ').map(Number)
  const [userTicks = 0, systemTicks = 0, childUserTicks = 0, childSystemTicks = 0] = fields.slice(11, 15)
  return { parent: fields[1] ?? 0, cpuMs: (userTicks + systemTicks + childUserTicks + childSystemTicks) * MS_PER_TICK }
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    // The process has exited.
    return ''
  }
}

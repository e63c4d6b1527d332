import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** A private network that no other program of this repository uses. */
const NETWORK = '10.199'
/** An address of this machine that each host reaches, as it would a vendor. */
export const OUTSIDE = `${NETWORK}.0.1`
/** Routes of less precedence than those of a link that is up. */
const LOW_PRECEDENCE = '4000'

/** A host with a network of its own, linked to this machine by one cable. */
export interface NetworkHost {
  readonly name: string
  readonly address: string
  /** This machine's end of the cable. */
  readonly gateway: string
  /** The words of a command that runs a program there. */
  readonly launcher: readonly string[]
  /** Plugs the cable in, or out: no packet passes in either direction, and nobody is told. */
  setLink(state: 'up' | 'down'): Promise<void>
}

export interface NetworkHosts {
  readonly hosts: readonly NetworkHost[]
  remove(): Promise<void>
}

/** Returns why this machine cannot have such hosts, or `null`. */
export async function findObstacle(): Promise<string | null> {
  if (process.getuid?.() !== 0) return 'network namespaces need root'
  const name = `farebox-${process.pid}-probe`
  try {
    await ip('netns', 'add', name)
    await ip('netns', 'delete', name)
    return null
  } catch (error) {
    return `this machine has no network namespaces: ${error instanceof Error ? error.message : String(error)}`
  }
}

/** Creates hosts of these names as network namespaces. Needs root. */
export async function createHosts(names: readonly string[]): Promise<NetworkHosts> {
  const undo: (readonly string[])[] = []
  const remove = async () => {
    for (const command of undo.toReversed()) await ip(...command).catch(() => undefined)
  }
  try {
    await ip('address', 'add', `${OUTSIDE}/32`, 'dev', 'lo')
    undo.push(['address', 'delete', `${OUTSIDE}/32`, 'dev', 'lo'])
    const hosts: NetworkHost[] = []
    for (const [index, name] of names.entries()) hosts.push(await createHost(name, index + 1, undo))
    return { hosts, remove }
  } catch (error) {
    await remove()
    throw error
  }
}

async function createHost(name: string, number: number, undo: (readonly string[])[]): Promise<NetworkHost> {
  const namespace = `farebox-${process.pid}-${name}`
  const [here, there] = [`fb${process.pid}h${number}`, `fb${process.pid}t${number}`]
  const [gateway, address, network] = [1, 2, 0].map((last) => `${NETWORK}.${number}.${last}`)
  if (!gateway || !address) throw new Error('there is no address')
  await ip('netns', 'add', namespace)
  undo.push(['netns', 'delete', namespace])
  await ip('link', 'add', here, 'type', 'veth', 'peer', 'name', there, 'netns', namespace)
  undo.push(['link', 'delete', here])
  await ip('address', 'add', `${gateway}/30`, 'dev', here)
  await ip('link', 'set', here, 'up')
  // While the cable is out, nothing for the host leaves this machine by another way.
  const unreachable = ['unreachable', `${network}/30`, 'metric', LOW_PRECEDENCE] as const
  await ip('route', 'add', ...unreachable)
  undo.push(['route', 'delete', ...unreachable])
  for (const command of [
    ['address', 'add', `${address}/30`, 'dev', there],
    ['link', 'set', there, 'up'],
    ['link', 'set', 'lo', 'up'],
    ['route', 'add', 'default', 'via', gateway],
  ])
    await ip('-netns', namespace, ...command)
  return {
    name,
    address,
    gateway,
    launcher: ['ip', 'netns', 'exec', namespace],
    // Of the host's own end only its state is lost, and not its address and route.
    setLink: async (state) => void (await ip('link', 'set', here, state)),
  }
}

async function ip(...words: readonly string[]): Promise<string> {
  return (await run('ip', words)).stdout
}

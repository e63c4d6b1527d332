/**
 * Runs one campaign: `npm run campaign -- kill-matrix --trials 50`, or all of them in full, one after another, with
 * `npm run campaign -- all`. Each is a file of this folder that exports `run`, and `HELP` when it has options.
 */
const campaigns: Readonly<Record<string, string>> = {
  'kill-matrix': 'kill, stop or fail a process at every point of a paid call',
  nemesis: 'random concurrent faults everywhere, reproducible from a printed seed',
  mutations: 'remove one safeguard at a time; the checker must report its absence',
  duplicates: 'simultaneous duplicates of a paid call at two APIs',
  'queue-wipe': 'lose the queue while it contains jobs',
  'rpc-faults': 'an RPC node that is down, hangs, is slow or returns errors, at every stage of a payment',
  'rpc-lies': 'an RPC node that returns false answers',
  'payer-attacks':
    'payers who move funds, revoke the allowance, or burn or spend the nonce, at every stage of a payment',
  purse: 'an attacker with little money, many wallets and many addresses, next to honest payers',
  fuzz: 'payment headers mutated at random, each of which must be refused without a trace',
  pool: 'a node that holds 16 pending transactions of a settlement key, and calls at a steady rate',
  'payer-overdraft': 'many concurrent calls paid from one small wallet',
  upgrade: 'this version replaced by a made-up later one under load, and rolled back',
  client: 'the batch command is killed and run again, with and without its journal, while the service is killed too',
  rotations: 'a catalog published, a deployment drained and every kind of key rotated under load',
  'two-hosts':
    'two hosts with networks of their own over one database, of which each is cut off, delayed, stalled and reset',
  containers: 'the composed system in real containers: updates, kills, restarts, stores away',
  restore: 'a ledger restored from a backup while calls go on, and callers who come back',
}

const HELP = `Usage: npm run campaign -- <campaign> [--help]
       npm run campaign -- all

${Object.entries(campaigns)
  .map(([name, what]) => `  ${name.padEnd(16)} ${what}`)
  .join('\n')}`

interface Campaign {
  readonly HELP?: string
  readonly run: (args: readonly string[]) => Promise<number>
}

async function load(name: string): Promise<Campaign> {
  return (await import(new URL(`./${name}.ts`, import.meta.url).href)) as Campaign
}

/** Runs every campaign as it is without options. Returns exit code 1 when one of them found a violation or broke. */
async function runAll(): Promise<number> {
  const results: (readonly [name: string, code: number])[] = []
  for (const name of Object.keys(campaigns)) {
    console.log(`\n== ${name}: ${campaigns[name]}\n`)
    const { run } = await load(name)
    const code = await run([]).catch((error: unknown) => {
      console.error(error)
      return 1
    })
    results.push([name, code])
  }
  console.log(results.map(([name, code]) => `${code === 0 ? 'passed' : 'FAILED'}  ${name}`).join('\n'))
  return results.every(([, code]) => code === 0) ? 0 : 1
}

async function main([name, ...args]: readonly string[]): Promise<number> {
  if (name === 'all') return await runAll()
  if (name !== undefined && name in campaigns) {
    const campaign = await load(name)
    if (!args.includes('--help')) return await campaign.run(args)
    console.log(campaign.HELP ?? `Usage: npm run campaign -- ${name}\n\n  ${campaigns[name]}; no options`)
    return 0
  }
  console.log(HELP)
  return name === '--help' ? 0 : 2
}

// Node 24.21 has been seen to spin forever at its natural end, while closing handles, after hundreds of broken
// connections.
process.exit(await main(process.argv.slice(2)))

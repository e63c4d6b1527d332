import { parseArgs } from 'node:util'
import { havePrograms } from '../support/processes/optional-program.ts'
import { isSound } from './containers/reconciliation.ts'
import { runScenario, STEPS } from './containers/steps.ts'

export const HELP = `Usage: npm run campaign -- containers [--until <step>] [--keep]

Runs the composed system of docker-compose.yml in real containers and does to it what happens to a machine, while callers
make calls and repeat them as their errors say. At the end no call may have failed, been paid for twice or been lost, by
the callers' records, the ledger, the vendors' log, the object store and the chain.

  --until <step>  ends after this step, with the reconciliation
  --keep          leaves the containers running until Ctrl-C

Steps: ${STEPS.join(', ')}

Needs root, Podman with its network programs, runc, docker-compose and debootstrap (Debian's packages: podman runc buildah
netavark aardvark-dns iptables catatonit docker-compose debootstrap). It asks no registry of images: Debian's base, Node's and
those of the stores are built from Debian's packages under the names in docker-compose.yml. Ports 80, 443, 8403, 9090 and
9093 must be free.`

/** Runs the command. Returns exit code 1 when a step failed or anything was lost. */
export async function run(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({ args: [...args], options: { until: { type: 'string' }, keep: { type: 'boolean' } } })
  if (!havePrograms('podman', 'runc', 'docker-compose', 'debootstrap', 'curl')) return 0
  const { steps, reconciliation, outcomes } = await runScenario({
    until: values.until,
    keep: values.keep ?? false,
    report: (line) => console.log(line),
  })
  console.log(JSON.stringify({ steps, outcomes, reconciliation }, null, 2))
  return reconciliation !== null && isSound(reconciliation) && steps.every(({ failure }) => failure === null) ? 0 : 1
}

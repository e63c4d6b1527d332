import { runRpcLies } from './campaigns/rpc-lies.ts'
const t=performance.now()
const rows = await runRpcLies()
for (const r of rows) console.log(JSON.stringify(r))
console.log((performance.now()-t)/1000)
process.exit(0)

/** Lower than every id in the ledger: where reading pages in the order of ids begins. */
export const LEAST_ID = '00000000-0000-0000-0000-000000000000'

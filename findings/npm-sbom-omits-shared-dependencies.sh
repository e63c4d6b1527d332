#!/usr/bin/env bash
# npm 11.6.2 and 11.19.1, `npm sbom --omit=dev`: a package that production needs is left out when the project lists it
# under devDependencies too.
# Guess: what `npm install --omit=dev` installs, and `npm ls --omit=dev --all` prints, is what the bill of materials lists.
# Seen on 2026-11-29: debug 4.4.3 needs ms 2.1.3, which tests use too. Installed and listed by `ls`: both. In CycloneDX and
# SPDX: debug alone, whose own need of ms is gone with it. `--package-lock-only` is no different.
# Npm selects `:not(.dev)`, which asks whether anyone names a package under devDependencies, not whether only they need it.
# In a monorepo the devDependencies of one workspace take the production dependencies of another out.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir project
echo '{"name": "project", "version": "1.0.0", "dependencies": {"debug": "4.4.3"}, "devDependencies": {"ms": "2.1.3"}}' >project/package.json
names() { node -e 'const bill = JSON.parse(require("fs").readFileSync(0, "utf8"))
  const names = (bill.components ?? bill.packages).map(({ name }) => name)
  console.log(names.filter((name) => name !== "project").sort().join(" "))'; }
for version in 11.6.2 11.19.1; do
  npm install --silent --prefix "npm-$version" "npm@$version"
  run() { (cd project && node "$folder/npm-$version/node_modules/npm/bin/npm-cli.js" --loglevel error "$@"); }
  rm -rf project/node_modules
  run install --silent --omit=dev
  echo "npm $version"
  echo "installed: $(ls project/node_modules | xargs)"
  echo "ls: $(run ls --omit=dev --all --parseable | sed -n 's|.*/node_modules/||p' | sort | xargs)"
  echo "cyclonedx: $(run sbom --omit=dev --sbom-format cyclonedx | names)"
  echo "spdx: $(run sbom --omit=dev --sbom-format spdx | names)"
  echo "cyclonedx of the lock: $(run sbom --omit=dev --package-lock-only --sbom-format cyclonedx | names)"
done | tee output
cat >expected <<'EXPECTED'
npm 11.6.2
installed: debug ms
ls: debug ms
cyclonedx: debug
spdx: debug
cyclonedx of the lock: debug
npm 11.19.1
installed: debug ms
ls: debug ms
cyclonedx: debug
spdx: debug
cyclonedx of the lock: debug
EXPECTED
diff expected output

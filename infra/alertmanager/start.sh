#!/bin/sh
# Writes Alertmanager's configuration from the settings ALERT_… (infra/compose/example.env), since Alertmanager itself
# reads no environment, and starts it. Ends with the name of the setting that is missing.
set -eu
file=${ALERTMANAGER_CONFIG:-/alertmanager/alertmanager.yml}

fail() {
  echo "alertmanager: $1" >&2
  exit 1
}

# Writes a value as a YAML string: in single quotes, which only need doubling.
yaml() {
  printf "'%s'" "$(printf '%s' "$1" | sed "s/'/''/g")"
}

# require NAME RECEIVER: ends unless the setting has a value.
require() {
  eval "value=\${$1:-}"
  [ -n "$value" ] || fail "ALERT_RECEIVERS names $2, which needs $1: set it in .env"
}

webhook() {
  require ALERT_WEBHOOK_URL webhook
  printf '    webhook_configs: [{ url: %s }]\n' "$(yaml "$ALERT_WEBHOOK_URL")"
}

slack() {
  require ALERT_SLACK_URL slack
  cat <<YAML
    slack_configs:
      - api_url: $(yaml "$ALERT_SLACK_URL")
        send_resolved: true
        title: '[{{ .Status }}] {{ .CommonLabels.alertname }}'
        text: '{{ range .Alerts }}{{ .Annotations.summary }}{{ "\n" }}{{ end }}'
YAML
}

email() {
  for name in ALERT_EMAIL_TO ALERT_EMAIL_FROM ALERT_SMTP_HOST; do require "$name" email; done
  cat <<YAML
    email_configs:
      - to: $(yaml "$ALERT_EMAIL_TO")
        from: $(yaml "$ALERT_EMAIL_FROM")
        smarthost: $(yaml "$ALERT_SMTP_HOST")
        auth_username: $(yaml "${ALERT_SMTP_USER:-}")
        auth_password: $(yaml "${ALERT_SMTP_PASSWORD:-}")
        send_resolved: true
YAML
}

[ -n "${ALERT_RECEIVERS:-}" ] || fail 'set ALERT_RECEIVERS in .env to webhook, slack or email, or to none'
umask 077
cat >"$file" <<'YAML'
route:
  receiver: operators
  group_by: [alertname]
  group_wait: 10s
  group_interval: 5m
  repeat_interval: 12h
  routes:
    - matchers: [alertname = FareboxWatchdog]
      receiver: heartbeat
      group_wait: 0s
      group_interval: 1m
      # Shorter than the interval of the checks, one of which would otherwise come some milliseconds too early.
      repeat_interval: 30s
    - matchers: [severity = critical]
      receiver: operators
      repeat_interval: 1h
inhibit_rules:
  - source_matchers: [alertname = FareboxGasGone]
    target_matchers: [alertname = FareboxGasLow]
    equal: [facilitator]
  - source_matchers: [alertname = FareboxDiskFull]
    target_matchers: [alertname = FareboxDiskFilling]
    equal: [instance, mountpoint]
receivers:
  - name: operators
YAML
if [ "$ALERT_RECEIVERS" = none ]; then
  echo 'alertmanager: WARNING: ALERT_RECEIVERS is none: nobody is notified of any alert' >&2
else
  for receiver in $(printf '%s' "$ALERT_RECEIVERS" | tr ',' ' '); do
    case $receiver in
      webhook | slack | email) $receiver >>"$file" ;;
      *) fail "ALERT_RECEIVERS names $receiver: use webhook, slack and email, or none" ;;
    esac
  done
fi
echo '  - name: heartbeat' >>"$file"
if [ -n "${ALERT_HEARTBEAT_URL:-}" ]; then
  printf '    webhook_configs: [{ url: %s, send_resolved: false }]\n' "$(yaml "$ALERT_HEARTBEAT_URL")" >>"$file"
else
  echo 'alertmanager: WARNING: ALERT_HEARTBEAT_URL is not set: nobody notices when this machine is gone' >&2
fi
exec alertmanager --config.file="$file" "$@"

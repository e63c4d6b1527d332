#!/usr/bin/env node
import '../dist/client/command/main.js'

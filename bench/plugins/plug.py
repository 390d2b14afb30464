import json
import sys

json.load(sys.stdin)
sys.stdout.write('{"status":"ok","result":"ok"}\n')

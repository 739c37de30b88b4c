"""Step Functions as moto interprets it, for the second opinion on definitions.

    python launch.py LAMBDA_URL

serves moto's Step Functions on a free port of 127.0.0.1 and says `ready PORT`.
Lambda tasks go to LAMBDA_URL, which must send x-amzn-RequestId. It ends when its
standard input does. Exit code 3: the packages in requirements.txt are missing.
"""

import copy
import datetime
import functools
import json
import logging
import os
import sys
import threading
import time
import types

MOTO = "5.2.5"  # what is replaced below are this version's inner parts

try:
    import boto3
    import moto
    import moto.stepfunctions.parser.asl.utils.boto_client as clients
    from botocore.config import Config
    from moto.core.config import default_user_config
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from moto.stepfunctions.parser.asl.component.common.path import result_path
    from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
    from moto.stepfunctions.parser.asl.component.common.timeouts.heartbeat import Heartbeat
    from moto.stepfunctions.parser.asl.component.common.timeouts.timeout import Timeout, TimeoutSeconds
    from moto.stepfunctions.parser.asl.component.eval_component import EvalComponent
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_sfn import StateTaskServiceSfn
    from moto.stepfunctions.parser.asl.component.state.wait.wait_function.wait_function import WaitFunction
    from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser
    from moto.stepfunctions.parser.asl.utils import json_path
    from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker
    from moto.stepfunctions.responses import StepFunctionResponse
    from werkzeug.serving import WSGIRequestHandler, make_server
except ImportError as missing:
    print(missing, file=sys.stderr)
    sys.exit(3)

# Waits pass in no time. A task's timeout is real but short; it is long against
# what a task of the test takes, also on a busy machine.
WAIT_SECONDS = 0.01
TIMEOUT_SECONDS = 12


def shorten_time():
    WaitFunction._wait_interval = lambda self, env, wait_seconds: env.program_state_event.wait(min(wait_seconds, WAIT_SECONDS))
    retrier_decl.time = types.SimpleNamespace(sleep=lambda seconds: time.sleep(min(seconds, WAIT_SECONDS)))

    def short(longest):
        # Without a field of its own a state has no timeout, and no end of the test's.
        def eval_body(self, env):
            seconds = self._eval_seconds(env=env)
            env.stack.append(seconds if seconds == TimeoutSeconds.DEFAULT_TIMEOUT_SECONDS else min(seconds, longest))

        return eval_body

    Timeout._eval_body = short(TIMEOUT_SECONDS)
    Heartbeat._eval_body = short(TIMEOUT_SECONDS // 2)


def once(parse):
    """Parsing the same text again costs moto more than all the rest, and the
    parsers of JSONPath disturb each other when threads use them at once."""
    parsing, parsed = threading.Lock(), functools.cache(parse)

    def find(text):
        with parsing:
            return parsed(text)

    return find


def parse_once():
    json_path.parse = once(json_path.parse)
    result_path.parse = once(result_path.parse)
    AmazonStateLanguageParser.parse = staticmethod(once(AmazonStateLanguageParser.parse))
    first = ExecutionWorker._get_evaluation_entrypoint
    ExecutionWorker._get_evaluation_entrypoint = lambda self: copy.deepcopy(first(self))


def answer_histories():
    """moto's serializer takes longer for a history than its interpreter took for
    the execution."""

    def get_execution_history(self):
        history = self.stepfunction_backend.get_execution_history(self._get_param("executionArn"))
        events = [dict(event, timestamp=datetime.datetime.fromisoformat(event["timestamp"]).timestamp()) for event in history["events"]]
        return 200, {}, json.dumps({"events": events})

    StepFunctionResponse.get_execution_history = get_execution_history


def log_nothing():
    """Each error is logged with everything round it, written out, also those that
    a Choice's IsPresent meets by design."""
    EvalComponent._log_exception = lambda self, exception: None
    EvalComponent._log_failure_event_exception = lambda self, failure_event_exception: None
    logging.disable(logging.CRITICAL)


def mend_start_execution():
    """states:startExecution passes its parameters on in a definition's casing,
    which the API doesn't have, so each call fails. AWS documents Input as any JSON
    here and as a string in the API, and answers ExecutionArn and StartDate."""

    def to_api(self, parameters, boto_service_name=None, service_action_name=None):
        if not isinstance(parameters.get("Input", ""), str):
            parameters["Input"] = json.dumps(parameters["Input"], separators=(",", ":"))
        for name in list(parameters):
            parameters[name[0].lower() + name[1:]] = parameters.pop(name)

    def from_api(self, response, boto_service_name=None, service_action_name=None):
        response["StartDate"] = response.pop("startDate").timestamp()
        response["ExecutionArn"] = response.pop("executionArn")

    StateTaskServiceSfn._normalise_parameters = to_api
    StateTaskServiceSfn._normalise_response = from_api


def send_tasks(endpoints):
    """Clients are made once a service: making one costs more than a task."""
    making = threading.Lock()

    @functools.cache
    def client(service, region):
        return boto3.client(
            service, region_name=region, endpoint_url=endpoints[service],
            aws_access_key_id="local", aws_secret_access_key="local",
            config=Config(max_pool_connections=100, read_timeout=None, retries={"total_max_attempts": 1}),
        )

    def find(service_name, region_name, **_):
        with making:
            return client(service_name, region_name)

    clients.boto3 = types.SimpleNamespace(client=find)


def main():
    if moto.__version__ != MOTO:
        print(f"moto {moto.__version__} is installed, {MOTO} is needed", file=sys.stderr)
        sys.exit(3)
    default_user_config["stepfunctions"]["execute_state_machine"] = True
    shorten_time()
    parse_once()
    answer_histories()
    log_nothing()
    mend_start_execution()
    server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True, request_handler=WSGIRequestHandler)
    send_tasks({"lambda": sys.argv[1], "stepfunctions": f"http://127.0.0.1:{server.port}"})
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    print("ready", server.port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()

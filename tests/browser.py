"""A page in headless Chromium, which has no network but this machine's own address."""

import resource
import shutil
import subprocess

BROWSER = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)


def lift_address_limit():
    """A browser reserves far more addresses than it uses memory."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def open_page(url, folder, *options):
    """(standard output, what the page's console says) of the browser on a page."""
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={folder}/profile",
        # Nothing may be fetched from elsewhere: every name resolves to nowhere.
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        "--window-size=1200,2400",
        "--enable-logging=stderr",
        *options,
        url,
    ]
    done = subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lift_address_limit,
    )
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]

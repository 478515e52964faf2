class Error(Exception):
    """What evoq refuses, with the sentence that names file, place, what was found and what was
    expected.

    ``code`` is the kind: ``"invalid input"``, ``"unsupported"``, ``"not found"``,
    ``"input/output error"``, ``"too large"``, ``"usage"``, ``"condition failed"`` or
    ``"internal error"``.
    """

    code: str

    def __init__(self, message: str, code: str = "usage") -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self):
        return type(self), (str(self), self.code)
